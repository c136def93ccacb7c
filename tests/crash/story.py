"""One run from its first process to its last check."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management import call_command

from allowance.embedded.evm.node import FINALITY_BLOCKS
from allowance.kernel.assets import Asset
from payments.lifecycle import OPEN_STATES, PaymentStatus
from payments.models import Payment, Relayer, Settlement
from tests.chains import balance_of, escrow, rpc
from tests.crash.cast import make_world
from tests.crash.checks import CHECKS, problems_of
from tests.crash.disturbances import DISTURBANCES, Fault
from tests.crash.evidence import Evidence
from tests.crash.installation import wait_until
from tests.crash.killpoints import KILL_POINTS
from tests.crash.misbehaviour import SEND, forget, noise
from tests.crash.rules import Rule
from tests.crash.table import Table
from tests.crash.world import World

FAULTS: Mapping[str, Fault] = {**KILL_POINTS, **DISTURBANCES}
_NOISE = 0.005
_FEW = 4
_BEHIND = 8
_END_S = 180
# More than the hour for which a transaction is valid.
_JUMP_S = 3_700


def choose(seed: int, only: str, *, is_short: bool) -> list[str]:
    """Choose the faults of a run; a short one has every kill point and some of the others."""
    names = [*KILL_POINTS, *random.Random(seed).sample(list(DISTURBANCES), k=_FEW)] if is_short else list(FAULTS)
    return [name for name in names if only in name]


def run(seed: int, minutes: float, faults: Sequence[str], table: Table, folder: Path) -> bool:
    """Play every fault once in an order that the seed gives, go on for so many minutes, then check everything."""
    call_command("migrate", interactive=False, verbosity=0)
    held_before = balance_of(Asset.USDC, escrow())
    with make_world(seed, folder) as world:
        table.checked("every fault was reached", _timeouts(_play, world, faults, seed, minutes, table))
        table.checked("everything came to its end", _timeouts(_come_to_an_end, world, table))
        for counted in (*(proxy.applied for proxy in world.proxies), world.processes.ended):
            table.add_noise(counted)
        return _check(Evidence.collect(world, held_before), table)


def _timeouts(step: Callable[..., None], *arguments: Any) -> list[str]:
    """Take a step; tell what it waited for in vain. What there is then is checked all the same."""
    try:
        step(*arguments)
    except TimeoutError as error:
        return [str(error)]
    return []


def _play(world: World, faults: Sequence[str], seed: int, minutes: float, table: Table) -> None:
    with ExitStack() as stack:
        for proxy in world.proxies:
            stack.enter_context(proxy.rules(*noise(_NOISE)))
        deadline = time.monotonic() + minutes * 60
        for name in _in_order(faults, random.Random(seed)):
            if time.monotonic() > deadline and table.has_all(faults):
                return
            table.begin(name)
            table.note(name, FAULTS[name](world))
            # The next fault meets a service that pays.
            world.wait_for_approvals(2)


def _in_order(faults: Sequence[str], chance: random.Random) -> Iterator[str]:
    while True:
        yield from chance.sample(faults, k=len(faults))


def _come_to_an_end(world: World, table: Table) -> None:
    """Let a last payment never get in, stop everything that disturbs, and wait until nothing is under way."""
    world.processes.wait_for_webs()
    world.clients.stop()
    world.depositor.stop()
    _never_gets_in(world, table)
    wait_until(partial(_is_over, world), "everything comes to its end", _END_S)


def _never_gets_in(world: World, table: Table) -> None:
    """Have nodes take a payment and forget it, whatever its fee, until its hour is over; others queue behind it."""
    name = "a transaction that never gets in, until its hour is over"
    table.begin(name)
    wait_until(partial(_is_settled, world), "all payments settle", _END_S)
    with ExitStack() as stack:
        any_payment = Rule("a node takes a payment and forgets it", forget(b"pay_".hex()), (SEND,))
        with world.misbehaving(world.proxies, any_payment):
            first = world.clients.pay(world.agents[0], world.chance).payment_id
            wait_until(lambda: world.shown(any_payment) > 0, "it is sent")
            stack.enter_context(
                world.misbehaving(world.proxies, Rule(any_payment.name, forget(first.encode().hex()), (SEND,)))
            )
        others = [world.clients.pay(world.agents[0], world.chance).payment_id for _ in range(_BEHIND)]
        relayer = Settlement.objects.filter(payment=first)[0].relayer
        elsewhere = Payment.objects.filter(pk__in=others).exclude(settlements__relayer=relayer)
        settled = PaymentStatus.SETTLED
        wait_until(lambda: not elsewhere.exclude(status=settled).exists(), "those of the other relayers settle", _END_S)
        rpc("evm_increaseTime", _JUMP_S)
        for _ in range(1 + FINALITY_BLOCKS):
            rpc("evm_mine")
        wait_until(partial(_is_settled, world), "it fails, and those behind it do", _END_S)
    reasons = Counter(
        Payment.objects.filter(pk__in=[first, *others], status=PaymentStatus.FAILED).values_list(
            "failure_reason", flat=True
        )
    )
    table.note(name, "; ".join(f"{count} given back: {reason}" for reason, count in reasons.items()))


def _is_settled(world: World) -> bool:
    world.processes.revive()
    return not Payment.objects.filter(status=PaymentStatus.APPROVED).exists()


def _is_over(world: World) -> bool:
    if not _is_settled(world) or Settlement.objects.filter(state__in=OPEN_STATES).exists():
        return False
    mined = [
        int(rpc("eth_getTransactionCount", relayer.address, "finalized"), 16) == relayer.next_nonce
        for relayer in Relayer.objects.all()
    ]
    return all(mined)


def _check(evidence: Evidence, table: Table) -> bool:
    for name in CHECKS:
        table.checked(name, problems_of(name, evidence))
    table.total(
        {
            "payments settled": sum(one.status == PaymentStatus.SETTLED for one in evidence.payments.values()),
            "payments failed and given back": sum(
                one.status == PaymentStatus.FAILED for one in evidence.payments.values()
            ),
            "requests": len(evidence.world.clients.requests),
            "requests that needed retries": sum(len(one.answers) > 1 for one in evidence.world.clients.requests),
            "deposits": len(evidence.deposited),
            "transactions replaced by a higher fee": Settlement.objects.filter(reason__startswith="Stuck").count(),
            "nonces filled": Settlement.objects.filter(payment=None).count(),
        }
    )
    return table.is_clean

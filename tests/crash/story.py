"""One run from its first process to its last check."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management import call_command

from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState
from payments.models import Leg, Payment, Settlement
from services.models import DeliveryState, WebhookDelivery
from tests.crash.cast import make_localnets, make_world
from tests.crash.checks import CHECKS, problems_of
from tests.crash.deadlines import AHEAD_S, SHORT_S
from tests.crash.evidence import Account, Evidence
from tests.crash.evm_faults import EVM_FAULTS, never_gets_in
from tests.crash.evm_localnet import EvmLocalnet, evm_rpc
from tests.crash.faults import ChainFault, Fault, on
from tests.crash.killpoints import CHAIN_KILL_POINTS, KILL_POINTS
from tests.crash.misbehaviour import noise
from tests.crash.solana_faults import SOLANA_FAULTS, SOLANA_KILL_POINTS, advance
from tests.crash.solana_localnet import SolanaLocalnet
from tests.crash.table import Table
from tests.crash.world import World
from tests.services.webhooks.receivers import Receiver

_EVM, _SOLANA = EvmLocalnet.alias, SolanaLocalnet.alias
_NOISE = 0.005
_FEW = 2


def _on(alias: str, faults: Mapping[str, ChainFault]) -> dict[str, Fault]:
    return {f"{name} ({alias})": on(alias, fault) for name, fault in faults.items()}


_DISTURBANCES = {_EVM: _on(_EVM, EVM_FAULTS), _SOLANA: _on(_SOLANA, SOLANA_FAULTS)}
FAULTS: Mapping[str, Fault] = {
    **KILL_POINTS,
    **_on(_EVM, CHAIN_KILL_POINTS),
    **_on(_SOLANA, CHAIN_KILL_POINTS),
    **_on(_SOLANA, SOLANA_KILL_POINTS),
    **_DISTURBANCES[_EVM],
    **_DISTURBANCES[_SOLANA],
}


def choose(seed: int, only: str, *, is_short: bool) -> list[str]:
    """Choose the faults of a run; a short one has every kill point, on either chain, and some of the others."""
    names = _choose_few(random.Random(seed)) if is_short else list(FAULTS)
    return [name for name in names if only in name]


def _choose_few(chance: random.Random) -> list[str]:
    on_either = [f"{name} ({chance.choice((_EVM, _SOLANA))})" for name in CHAIN_KILL_POINTS]
    few = [name for faults in _DISTURBANCES.values() for name in chance.sample(list(faults), k=_FEW)]
    return [*KILL_POINTS, *on_either, *_on(_SOLANA, SOLANA_KILL_POINTS), *few]


def run(seed: int, minutes: float, faults: Sequence[str], table: Table, folder: Path) -> bool:
    """Play every fault once in an order that the seed gives, go on for so many minutes, then check everything."""
    call_command("migrate", interactive=False, verbosity=0)
    localnets = make_localnets()
    before = {localnet.alias: Account.read(localnet) for localnet in localnets}
    with Receiver() as payees, make_world(seed, folder, localnets, payees) as world:
        table.checked("every fault was reached", _timeouts(_play, world, faults, seed, minutes, table))
        table.checked("everything came to its end", _timeouts(_come_to_an_end, world, table))
        table.checked("the thief was at it all the while, and played every trick", list(_idle(world)))
        for counted in (world.thief.counts, *(proxy.applied for proxy in world.proxies), world.house.ended):
            table.add_noise(counted)
        return _check(Evidence.collect(world, before), table)


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
    world.house.wait_for_webs()
    _let_the_thief_finish(world, table)
    world.clients.stop()
    for network in world.networks.values():
        network.depositor.stop()
    name = "a transaction that never gets in, until its time is over"
    table.begin(name)
    under_way = Payment.objects.filter(status=PaymentStatus.APPROVED, chain=EvmLocalnet.caip2)
    world.wait_until(lambda: not under_way.exists(), "all payments on its chain settle")
    table.note(name, never_gets_in(world, world.networks[_EVM]))
    # What failed on Solana is given back only when all that was signed for it has expired.
    advance(world.networks[_SOLANA])
    world.wait_until(partial(_is_over, world), "everything comes to its end")


def _let_the_thief_finish(world: World, table: Table) -> None:
    """Let deadlines come soon, until the thief has played every trick; then let go of it."""
    name = "the thief meets deadlines (evm-localnet)"
    table.begin(name)
    evm_rpc("evm_increaseTime", AHEAD_S)
    try:
        world.wait_until(
            lambda: not world.thief.missing or not world.thief.is_at_it(), "the thief has played every trick"
        )
    finally:
        world.thief.end()
    table.note(name, f"what was signed was good for {SHORT_S} s")


def _idle(world: World) -> Iterator[str]:
    """Tell what the thief has not done; it ends with 0 unless something broke."""
    yield from (f"It never happened: {trick}" for trick in world.thief.missing)
    if world.thief.status != 0:
        yield f"The thief ended with status {world.thief.status}; its log is in {world.thief.folder}."


def _are_all_settled() -> bool:
    return not Payment.objects.filter(status=PaymentStatus.APPROVED).exists()


def _is_over(world: World) -> bool:
    if not _are_all_settled() or Settlement.objects.filter(state__in=OPEN_STATES).exists():
        return False
    if WebhookDelivery.objects.filter(state=DeliveryState.WAITING).exists():
        return False
    return all(network.localnet.has_come_to_rest() for network in world.networks.values())


def _count_renewed() -> int:
    expired = Leg.objects.filter(settlement__state=SettlementState.EXPIRED, is_void=False)
    return expired.filter(payment__status=PaymentStatus.SETTLED).count()


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
            "deposits": sum(len(one.deposited) for one in evidence.after.values()),
            "transactions replaced by a higher fee": Settlement.objects.filter(reason__startswith="Stuck").count(),
            "nonces filled": Settlement.objects.filter(first_payment=None).count(),
            "transactions expired and signed again": _count_renewed(),
            "webhooks told": WebhookDelivery.objects.count(),
            "webhooks told again": len(evidence.world.payees.requests) - WebhookDelivery.objects.count(),
        }
    )
    return table.is_clean

"""Where processes are killed: named points, each reached before the signal is sent."""

import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from django.db import connection

from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment, Settlement
from tests.crash.clients import APPROVED
from tests.crash.faults import ChainFault, Fault, wait_until_observed
from tests.crash.localnets import Asking
from tests.crash.processes import BEAT, WEBHOOKS, WEBS, WORKERS
from tests.crash.rules import Hold
from tests.crash.world import LET_GO, Network, World
from tests.services.webhooks.behaviours import Exchange, answers

_TRIES = 10


def web_under_load(world: World) -> str:
    victim = world.some_web()
    world.wait_for_approvals(1)
    world.crash(victim)
    return f"{victim} killed"


def web_in_the_middle_of_recording(world: World) -> str:
    victim = world.crash_at_lock("LOCK TABLE ledger_balancemovement IN SHARE MODE", WEBS, "%payments_record")
    return f"{victim} killed inside its transaction"


def web_during_commit(world: World) -> str:
    # Foreign keys are checked at commit: it waits there for the payee's row. It then succeeds, and nobody is told.
    victim = world.crash_at_lock("SELECT FROM services_service FOR UPDATE", WEBS, "COMMIT")
    return f"{victim} killed while it committed; nobody got the answer"


def worker_recording_a_broadcast(world: World) -> str:
    lock = "LOCK TABLE payments_transition IN SHARE MODE"
    return f"{world.crash_at_lock(lock, WORKERS, '%payments_transition')} killed inside its transaction"


def worker_recording_a_settlement(world: World) -> str:
    world.wait_until(Payment.objects.filter(status=PaymentStatus.APPROVED).exists, "a payment is under way")
    # As a foreign key's check locks them: new payments do not wait for it, what changes these does.
    lock = "SELECT FROM payments_payment WHERE status = 'approved' FOR KEY SHARE"
    return f"{world.crash_at_lock(lock, WORKERS, '%payments_payment')} killed inside its transaction"


def worker_crediting_a_deposit(world: World) -> str:
    lock = "LOCK TABLE payments_deposit IN SHARE MODE"
    return f"{world.crash_at_lock(lock, WORKERS, '%payments_deposit')} killed inside its transaction"


def webhooks_after_send_before_record(world: World) -> str:
    is_over, told = threading.Event(), len(world.payees.requests)

    def keep_waiting(_: Exchange) -> None:
        is_over.wait()

    world.payees.behave(keep_waiting)
    try:
        world.wait_until(lambda: len(world.payees.requests) > told, "a payee is told")
        world.crash(WEBHOOKS)
    finally:
        world.payees.behave(answers(200))
        is_over.set()
    return f"{WEBHOOKS} killed; the payee had the event, and nobody its answer"


def beat(world: World) -> str:
    world.crash(BEAT)
    world.wait_for_approvals(1)
    return "killed; payments went on being approved"


def broker(world: World) -> str:
    for network in world.networks.values():
        wait_until_observed(world, network)
    world.installation.kill("broker")
    world.wait_for_approvals(3)
    world.installation.start("broker")
    return "killed; 3 payments approved without it; restarted"


def database(world: World) -> str:
    connection.close()
    world.installation.kill("database")
    world.installation.start("database")
    world.wait_for_approvals(1)
    return "killed with all its backends; restarted"


# --- On one chain -----------------------------------------------------------------------------------------------------
def worker_asking(find: Callable[[Asking], Sequence[str]], what: str, *, is_before: bool = False) -> ChainFault:
    """Kill a worker with a question under way, which the node got or did not get."""

    def kill(world: World, network: Network) -> str:
        return f"{world.crash_at_call(network, find(network.localnet.asking), is_before=is_before)} killed {what}"

    return kill


def web_after_commit_before_broadcast(world: World, network: Network) -> str:
    """Kill the web server that has answered two payments of one transaction, which nobody has sent."""
    victim = world.some_web()
    world.house.wait_for_webs()
    wait_until_observed(world, network)
    with world.frozen_workers():
        row = _pay_together(world, network, world.house.url(victim))
        if (row.state, row.offered_at) != (SettlementState.SIGNED, None):
            raise RuntimeError(f"{row.tx} was broadcast while the workers were stopped.")
        world.crash(victim)
    return f"{victim} answered 201 for {row.legs.count()} payments of {row.tx} and was killed; nothing had been sent"


def _pay_together(world: World, network: Network, url: str) -> Settlement:
    """Have two agents pay at once until they share a transaction; not if another server is busy with one of them."""
    payers = network.agents[:2]
    for _ in range(_TRIES):
        chances = [random.Random(world.chance.getrandbits(64)) for _ in payers]
        with ThreadPoolExecutor(len(payers)) as pool:
            requests = [*pool.map(partial(world.clients.pay, urls=[url]), payers, chances)]
        if any(request.answers[-1][0] != APPROVED for request in requests):
            raise RuntimeError(f"What can be afforded was not approved: {[one.answers[-1] for one in requests]}")
        rows = Settlement.objects.filter(payments__in=[one.payment_id for one in requests]).distinct()
        if len(rows) == 1:
            return rows[0]
    raise RuntimeError(f"None of {_TRIES} pairs of payments shared a transaction.")


def worker_overtaken(world: World, network: Network) -> str:
    """Hold one worker in the middle of confirming until the other has done the same work, then let it go on."""
    localnet = network.localnet
    with world.holding(network, Hold(localnet.asking.seek, is_before=False)) as hold:
        settled = Settlement.objects.filter(chain=localnet.caip2, state=SettlementState.FINAL)
        before = settled.count()

        def is_overtaken() -> bool:
            world.installation.execute(LET_GO)
            return settled.count() > before

        world.wait_until(is_overtaken, "the other worker settles something")
    return f"{hold.client} went on with what it had read before"


def node(world: World, network: Network) -> str:
    name = network.localnet.alias
    wait_until_observed(world, network)
    world.installation.kill(name)
    world.wait_for_approvals(3, network.agents)
    world.installation.start(name)
    return "killed, its pool lost; 3 payments approved without it; restarted"


KILL_POINTS: dict[str, Fault] = {
    "web: under load": web_under_load,
    "web: in the middle of recording": web_in_the_middle_of_recording,
    "web: during commit, answer lost": web_during_commit,
    "worker: recording a broadcast": worker_recording_a_broadcast,
    "worker: recording a settlement": worker_recording_a_settlement,
    "worker: crediting a deposit": worker_crediting_a_deposit,
    "webhooks: after sending, before record": webhooks_after_send_before_record,
    "beat": beat,
    "broker": broker,
    "database": database,
}
CHAIN_KILL_POINTS: dict[str, ChainFault] = {
    "web: after commit of a list, before broadcast": web_after_commit_before_broadcast,
    "worker: before broadcast": worker_asking(
        lambda asking: asking.send, "when it was noted as offered, and never sent", is_before=True
    ),
    "worker: after broadcast, before record": worker_asking(lambda asking: asking.send, "when the node had taken it"),
    "worker: mid-confirmation, seeking": worker_asking(lambda asking: asking.seek, "with the answer on its way"),
    "worker: mid-confirmation, proof": worker_asking(lambda asking: asking.prove, "with the answer on its way"),
    "worker: observing the chain": worker_asking(
        lambda asking: asking.observe, "before it knew what to sign with", is_before=True
    ),
    "worker: mid-deposit, seeking": worker_asking(lambda asking: asking.deposits, "with the answer on its way"),
    "worker: overtaken while it hung": worker_overtaken,
    "node": node,
}

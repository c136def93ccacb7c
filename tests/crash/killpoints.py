"""Where processes are killed: named points, each reached before the signal is sent."""

from django.db import connection

from payments.lifecycle import SettlementState
from payments.models import Settlement
from tests.crash.clients import APPROVED
from tests.crash.installation import wait_until
from tests.crash.misbehaviour import CALL, COUNT, LOGS, RECEIPT, SEND
from tests.crash.processes import BEAT, WEBS, WORKERS
from tests.crash.rules import Hold
from tests.crash.world import LET_GO, World


def web_under_load(world: World) -> str:
    victim = world.some_web()
    world.wait_for_approvals(1)
    world.crash(victim)
    return f"{victim} killed"


def web_after_commit_before_broadcast(world: World) -> str:
    victim = world.some_web()
    world.processes.wait_for_webs()
    with world.frozen_workers():
        request = world.clients.pay(world.agents[0], world.chance, [world.processes.url(victim)])
        if request.answers[-1][0] != APPROVED:
            raise RuntimeError(f"A payment that can be afforded was not approved: {request.answers[-1]}")
        row = Settlement.objects.get(payment=request.payment_id)
        if (row.state, row.offered_at) != (SettlementState.SIGNED, None):
            raise RuntimeError(f"{row.tx} was broadcast while the workers were stopped.")
        world.crash(victim)
    return f"{victim} answered 201 and was killed; nothing had been sent"


def web_in_the_middle_of_recording(world: World) -> str:
    victim = world.crash_at_lock("LOCK TABLE ledger_balancemovement IN SHARE MODE", WEBS, "%payments_record")
    return f"{victim} killed inside its transaction"


def web_during_commit(world: World) -> str:
    # Foreign keys are checked at commit: it waits there for the payee's row. It then succeeds, and nobody is told.
    victim = world.crash_at_lock("SELECT FROM services_service FOR UPDATE", WEBS, "COMMIT")
    return f"{victim} killed while it committed; nobody got the answer"


def worker_before_broadcast(world: World) -> str:
    return f"{world.crash_at_call(SEND, is_before=True)} killed; noted as offered, never sent"


def worker_after_broadcast_before_record(world: World) -> str:
    return f"{world.crash_at_call(SEND, is_before=False)} killed; the node had taken it"


def worker_recording_a_broadcast(world: World) -> str:
    lock = "LOCK TABLE payments_transition IN SHARE MODE"
    return f"{world.crash_at_lock(lock, WORKERS, '%payments_transition')} killed inside its transaction"


def worker_asking_for_receipts(world: World) -> str:
    return f"{world.crash_at_call(RECEIPT, is_before=False)} killed with the answer on its way"


def worker_asking_for_proof(world: World) -> str:
    return f"{world.crash_at_call(CALL, is_before=False)} killed with the answer on its way"


def worker_recording_a_settlement(world: World) -> str:
    # As a foreign key's check locks them: new payments do not wait for it, what changes these does.
    lock = "SELECT FROM payments_payment WHERE status = 'approved' FOR KEY SHARE"
    return f"{world.crash_at_lock(lock, WORKERS, '%payments_payment')} killed inside its transaction"


def worker_observing(world: World) -> str:
    return f"{world.crash_at_call(COUNT, is_before=True)} killed before it knew the nonces"


def worker_reading_deposits(world: World) -> str:
    return f"{world.crash_at_call(LOGS, is_before=False)} killed with the events on their way"


def worker_crediting_a_deposit(world: World) -> str:
    lock = "LOCK TABLE payments_deposit IN SHARE MODE"
    return f"{world.crash_at_lock(lock, WORKERS, '%payments_deposit')} killed inside its transaction"


def worker_overtaken(world: World) -> str:
    """Hold one worker in the middle of confirming until the other has done the same work, then let it go on."""
    with world.holding(Hold(RECEIPT, is_before=False)) as hold:
        settled = Settlement.objects.filter(state=SettlementState.FINAL)
        before = settled.count()

        def is_overtaken() -> bool:
            world.installation.execute(LET_GO)
            return settled.count() > before

        wait_until(is_overtaken, "the other worker settles something")
    return f"{hold.client} went on with what it had read before"


def beat(world: World) -> str:
    world.crash(BEAT)
    world.wait_for_approvals(1)
    return "killed; payments went on being approved"


def broker(world: World) -> str:
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


def node(world: World) -> str:
    world.installation.kill("node")
    world.wait_for_approvals(3)
    world.installation.start("node")
    return "killed, its pool lost; 3 payments approved without it; restarted"


KILL_POINTS = {
    "web: under load": web_under_load,
    "web: after commit, before broadcast": web_after_commit_before_broadcast,
    "web: in the middle of recording": web_in_the_middle_of_recording,
    "web: during commit, answer lost": web_during_commit,
    "worker: before broadcast": worker_before_broadcast,
    "worker: after broadcast, before record": worker_after_broadcast_before_record,
    "worker: recording a broadcast": worker_recording_a_broadcast,
    "worker: mid-confirmation, receipts": worker_asking_for_receipts,
    "worker: mid-confirmation, proof": worker_asking_for_proof,
    "worker: recording a settlement": worker_recording_a_settlement,
    "worker: observing the chain": worker_observing,
    "worker: mid-deposit, events": worker_reading_deposits,
    "worker: crediting a deposit": worker_crediting_a_deposit,
    "worker: overtaken while it hung": worker_overtaken,
    "beat": beat,
    "broker": broker,
    "database": database,
    "node": node,
}

"""Judge the requests of a batch, each in its turn, and sign together what is approved."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from foundation.kernel.errors import ContractError
from foundation.kernel.ids import EPOCH
from foundation.telemetry.context import resume
from ledger.models import LogEntry
from payments.deciding.judging import judge
from payments.deciding.known import Known
from payments.deciding.reading import EarlierDecision, Found, Undecided
from payments.deciding.requests import Carrier, Environment, PaymentRequest
from payments.deciding.running import DecideAgain, Judged, RunningBatch
from payments.deciding.signing import Unsigned, sign_together

Check = Callable[[PaymentRequest, Known], None]


@dataclass(frozen=True, slots=True)
class Turn:
    """What becomes of a request in its turn: a decision of this batch, or what is none.

    `is_replay`: an earlier request of the batch had the same key, and was decided.
    """

    outcome: Judged | LogEntry | EarlierDecision | Exception | Undecided
    is_replay: bool = False


def judge_and_sign(
    asked: Sequence[tuple[PaymentRequest, Found]], environment: Environment, check: Check
) -> tuple[list[Judged], list[Carrier], list[Turn]]:
    """Judge requests in their turns, then sign what was approved.

    What cannot be signed is refused: all are judged once more, since the later ones have counted with it.
    """
    unsigned: dict[tuple[str, str], Unsigned] = {}
    while True:
        batch = RunningBatch(unsigned)
        turns = [_judge_in_turn(request, facts, batch, environment, check) for request, facts in asked]
        at = max((one.known.decided_at for one in batch.judged), default=EPOCH)
        carriers, refused = sign_together(batch.prepared, at)
        if not refused:
            return batch.judged, carriers, turns
        for one in batch.judged:
            if one.prepared is not None and (why := refused.get(one.prepared.payment_id)) is not None:
                unsigned[one.request.agent_id, one.request.idempotency_key] = why


def _judge_in_turn(
    request: PaymentRequest, facts: Found, batch: RunningBatch, environment: Environment, check: Check
) -> Turn:
    """Judge a request of a batch after those before it; leave it out after one of the same agent that was left out."""
    if isinstance(facts, Undecided):
        batch.left_out.add(request.agent_id)
    if not isinstance(facts, Known):
        return Turn(facts)
    if request.agent_id in batch.left_out:
        return Turn(Undecided(facts.root))
    if (earlier := batch.find_earlier(request)) is not None:
        return Turn(earlier, is_replay=True)
    try:
        with resume(request.ids):  # one thread decides for several
            check(request, facts)
            return Turn(judge(request, facts, batch, environment))
    except DecideAgain:
        batch.left_out.add(request.agent_id)
        return Turn(Undecided(facts.root))
    except ContractError as error:
        return Turn(error)

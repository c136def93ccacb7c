"""The money path: payment requests, each decided once, several in one transaction.

One database transaction of two round trips and a commit, without any other network call: lock and read, judge each
request in turn (`judging.py`), sign together what is approved (`signing.py`), seal, record. A batch of one is the
ordinary case, and the same code.
Source: docs/interface-specification.md, "POST /v1/payments/request"; docs/architecture.md, "One payment's way".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import localcontext
from functools import partial

from django.db import connection, transaction
from psycopg.errors import ReadOnlySqlTransaction

from chains.catalogue import alias_of
from foundation.kernel.counters import BATCH_PAYMENTS, DECISIONS, SETTLEMENT_CHANGES
from foundation.kernel.errors import ContractError, IdempotencyConflict, PolicySignerUnavailable
from foundation.kernel.money import EXACT
from foundation.kernel.times import utc_now
from foundation.telemetry.context import resume
from foundation.telemetry.traces import Spans
from ledger.models import LogEntry
from payments.deciding.answers import refusal
from payments.deciding.entries import make_entries
from payments.deciding.judging import check_clocks, judge
from payments.deciding.known import Known
from payments.deciding.reading import LONGEST_WAIT_S, EarlierDecision, Found, HeldTooLong, Undecided, lock_and_read
from payments.deciding.recording import record
from payments.deciding.requests import Carrier, Environment, PaymentRequest
from payments.deciding.running import DecideAgain, Decided, Judged, RunningBatch
from payments.deciding.signing import Unsigned, sign_together
from payments.lifecycle import SettlementState


@dataclass(frozen=True, slots=True)
class Approval:
    """An approval; `is_replay`: it was decided earlier, for the same key."""

    entry: LogEntry
    is_replay: bool


# An approval or a refusal: the entry that was recorded, or one of earlier. An exception is the answer of its request
# alone.
Outcome = LogEntry | EarlierDecision | Exception | Undecided
Check = Callable[[PaymentRequest, Known], None]


def request_payment(request: PaymentRequest, environment: Environment) -> Approval:
    """Decide one payment request by itself and, if it is approved, commit to paying it. Raises as `conclude` does."""
    (outcome,) = decide_together([request], environment, wait_s=LONGEST_WAIT_S)
    return conclude(request, outcome, now=environment.now)


def conclude(request: PaymentRequest, outcome: Outcome, *, now: datetime | None = None) -> Approval:
    """Return the approval that a batch has decided for a request, or raise the refusal; `now` replaces the clock.

    Raises:
        AnotherCaller: nothing was decided; see `PaymentRequest.caller`.
        AgentNotFound: nothing is logged.
        IdempotencyConflict: the key is known with another payload; nothing is logged.
        AgentPaused, ServiceNotApproved, InvalidRequest (asset, minimum), BudgetExceeded: blocked by policy, and logged.
        PolicySignerUnavailable: the request could not be evaluated, co-signed or prepared. Logged without its key, so
            that the same key is evaluated again; not logged if the agent could not be locked in time, if clocks
            disagree, or if the same 503 to the same request is in the log already.
        RateLimited: refused, after too many refusals in the last minute; not logged.
    """
    if isinstance(outcome, HeldTooLong):
        raise PolicySignerUnavailable from outcome
    if isinstance(outcome, Exception):
        raise outcome
    if isinstance(outcome, Undecided):
        raise TypeError(f"{outcome} is no outcome.")
    is_replay = isinstance(outcome, EarlierDecision)
    entry = _read_earlier(request, outcome) if isinstance(outcome, EarlierDecision) else outcome
    if entry.payment_id is None:
        raise refusal(entry, replayed_at=(now or utc_now()) if is_replay else None)
    return Approval(entry, is_replay)


def decide_together(
    requests: Sequence[PaymentRequest], environment: Environment, *, wait_s: float | None
) -> list[Outcome]:
    """Decide requests in one transaction, in their order, and commit to paying what is approved.

    What somebody else holds is waited for `wait_s` seconds; if that is None, the requests that need it come back as
    `Undecided.BUSY`. So do, in any case, those that only another batch can decide, after this one; never the first.

    What fails                                          Who is asked again
    --------------------------------------------------  ----------------------------------------------------------
    what is needed is held for longer than `wait_s`     nobody: it is the answer of each request
    the primary is lost, as in a failover               all of them, once, over another connection
    anything else, with several requests                each by itself: one does not spoil the others
    anything else, with one request                     nobody: it is its answer
    """
    try:
        return _decide(requests, environment, wait_s)
    except HeldTooLong as error:
        return [error] * len(requests)
    except Exception as error:  # noqa: BLE001 - whatever one request causes, the others are decided
        if _is_primary_lost(error):
            return _decide_over_another_connection(requests, environment, wait_s)
        if len(requests) == 1:
            return [error]
    return [decide_together([one], environment, wait_s=wait_s)[0] for one in requests]


def _is_primary_lost(error: Exception) -> bool:
    """Tell whether the server has gone, or is no primary any more. A transaction around this one has to end first."""
    if connection.in_atomic_block:
        return False
    return isinstance(error.__cause__, ReadOnlySqlTransaction) or not connection.is_usable()


def _decide_over_another_connection(
    requests: Sequence[PaymentRequest], environment: Environment, wait_s: float | None
) -> list[Outcome]:
    """Decide requests once more. What was committed before the connection was lost is a replay then."""
    connection.close()
    try:
        return _decide(requests, environment, wait_s)
    except Exception as error:  # noqa: BLE001 - it is the answer of each request
        return [error] * len(requests)


def _decide(requests: Sequence[PaymentRequest], environment: Environment, wait_s: float | None) -> list[Outcome]:
    spans = Spans()
    with localcontext(EXACT), transaction.atomic():
        asked_at = environment.now or utc_now()
        found = lock_and_read(
            requests, now=environment.now, most_refusals=environment.refusals_per_minute, wait_s=wait_s
        )
        answered_at = environment.now or utc_now()
        spans.end("lock and read")
        check = partial(check_clocks, asked_at=asked_at, answered_at=answered_at)
        judged, carriers, outcomes = _judge_and_sign(list(zip(requests, found, strict=True)), environment, check)
        decided = make_entries(judged, carriers, environment.signer)
        spans.end("judge and sign")
        if decided:
            record(decided, carriers)
    spans.end("record and commit")
    _count(decided, carriers)
    prepared = [one.prepared for one in judged if one.prepared is not None]
    for chain in {one.payee.chain for one in prepared}:
        environment.wake(chain)
    spans.trace(one.payment_id for one in prepared)
    entries = {id(one.judged): one.entry for one in decided}
    return [_conclude_turn(one, entries) for one in outcomes]


# What becomes of a request in its turn: a decision, which is a replay if an earlier request of the batch has the same key,
# or what is no decision of this batch.
@dataclass(frozen=True, slots=True)
class _Turn:
    outcome: Judged | Outcome
    is_replay: bool = False


def _judge_and_sign(
    asked: Sequence[tuple[PaymentRequest, Found]], environment: Environment, check: Check
) -> tuple[list[Judged], list[Carrier], list[_Turn]]:
    """Judge requests in their turns, then sign what was approved.

    What cannot be signed is refused: all are judged once more, since the later ones have counted with it.
    """
    unsigned: dict[tuple[str, str], Unsigned] = {}
    while True:
        batch = RunningBatch(unsigned)
        turns = [_judge_in_turn(request, facts, batch, environment, check) for request, facts in asked]
        carriers, refused = sign_together(batch.prepared, environment.now or utc_now())
        if not refused:
            return batch.judged, carriers, turns
        for one in batch.judged:
            if one.prepared is not None and (why := refused.get(one.prepared.payment_id)) is not None:
                unsigned[one.request.agent_id, one.request.idempotency_key] = why


def _conclude_turn(turn: _Turn, entries: Mapping[int, LogEntry]) -> Outcome:
    if not isinstance(turn.outcome, Judged):
        return turn.outcome
    entry = entries[id(turn.outcome)]
    return EarlierDecision(entry.id, entry) if turn.is_replay else entry


def _count(decided: Sequence[Decided], carriers: Sequence[Carrier]) -> None:
    if decided:
        BATCH_PAYMENTS.observe(len(decided))
    for one in decided:
        DECISIONS.add(one.entry.result, one.entry.rule)
    for carrier in carriers:
        SETTLEMENT_CHANGES.add(alias_of(carrier.chain), SettlementState.SIGNED)


def _judge_in_turn(
    request: PaymentRequest, facts: Found, batch: RunningBatch, environment: Environment, check: Check
) -> _Turn:
    """Judge a request of a batch after those before it; leave it out after one of the same agent that was left out."""
    if isinstance(facts, EarlierDecision | Exception):
        return _Turn(facts)
    if isinstance(facts, Undecided) or request.agent_id in batch.left_out:
        batch.left_out.add(request.agent_id)
        return _Turn(Undecided.BUSY)
    if (earlier := batch.find_earlier(request)) is not None:
        return _Turn(earlier, is_replay=True)
    try:
        with resume(request.ids):  # one thread decides for several
            check(request, facts)
            return _Turn(judge(request, facts, batch, environment))
    except DecideAgain:
        batch.left_out.add(request.agent_id)
        return _Turn(Undecided.BUSY)
    except ContractError as error:
        return _Turn(error)


def _read_earlier(request: PaymentRequest, earlier: EarlierDecision) -> LogEntry:
    entry = earlier.entry or LogEntry.objects.get(pk=earlier.entry_id)
    if bytes(entry.fingerprint or b"") != request.fingerprint:
        raise IdempotencyConflict
    return entry

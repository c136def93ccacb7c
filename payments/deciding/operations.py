"""The money path: payment requests, each decided once, several in one transaction.

One database transaction of two round trips and a commit, without any other network call: lock and read, judge each
request in its turn (`turns.py`, `judging.py`), sign together what is approved (`signing.py`), seal, record. A batch of
one is the ordinary case, and the same code.
Source: docs/interface-specification.md, "POST /v1/payments/request"; docs/architecture.md, "One payment's way".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import localcontext
from functools import partial

from django.db import connection, transaction
from psycopg.errors import ReadOnlySqlTransaction

from chains.catalogue import alias_of
from foundation.groups import within_group_of
from foundation.kernel.counters import BATCH_PAYMENTS, DECISIONS, SETTLEMENT_CHANGES
from foundation.kernel.errors import IdempotencyConflict, PolicySignerUnavailable
from foundation.kernel.money import EXACT
from foundation.kernel.times import utc_now
from foundation.telemetry.traces import Spans
from ledger.models import LogEntry, Result
from payments.deciding.answers import refusal
from payments.deciding.entries import make_entries
from payments.deciding.judging import check_clocks
from payments.deciding.reading import LONGEST_WAIT_S, EarlierDecision, HeldTooLong, Undecided, lock_and_read
from payments.deciding.recording import record
from payments.deciding.requests import Carrier, Environment, PaymentRequest
from payments.deciding.running import Decided, Judged
from payments.deciding.turns import Turn, judge_and_sign
from payments.lifecycle import SettlementState


@dataclass(frozen=True, slots=True)
class Approval:
    """An approval, or that a person has to approve it first; `is_replay`: it was decided earlier, for the same key."""

    entry: LogEntry
    is_replay: bool


# An approval or a refusal: the entry that was recorded, or one of earlier. An exception is the answer of its request
# alone.
Outcome = LogEntry | EarlierDecision | Exception | Undecided


def request_payment(request: PaymentRequest, environment: Environment) -> Approval:
    """Decide one payment request by itself and, if it is approved, commit to paying it. Raises as `conclude` does."""
    (outcome,) = decide_together([request], environment, wait_s=LONGEST_WAIT_S)
    return conclude(request, outcome, now=environment.now)


def conclude(request: PaymentRequest, outcome: Outcome, *, now: datetime | None = None) -> Approval:
    """Return the approval that a batch has decided for a request, or raise the refusal; `now` replaces the clock.

    Of a payment that was held for a person's approval, it is what has ended that since.

    Raises:
        AnotherCaller: nothing was decided; see `PaymentRequest.caller`.
        AgentNotFound: nothing is logged.
        IdempotencyConflict: the key is known with another payload; nothing is logged.
        AgentPaused, ServiceNotApproved, InvalidRequest (asset, minimum), BudgetExceeded: blocked by policy, and logged.
        ApprovalDeclined: a person had to approve it, and did not.
        PolicySignerUnavailable: the request could not be evaluated, co-signed or prepared. Logged without its key, so
            that the same key is evaluated again; not logged if the agent could not be locked in time, if clocks
            disagree, or if the same 503 to the same request is in the log already.
        RateLimited: refused, after too many refusals in the last minute, or with too many that are held; not logged.
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


def follow(entry: LogEntry) -> LogEntry:
    """Return the decision that has ended a hold, if this one began it; else itself."""
    if entry.result != Result.HELD:
        return entry
    return LogEntry.objects.filter(hold_ended__entry=entry).first() or entry


def decide_together(
    requests: Sequence[PaymentRequest], environment: Environment, *, wait_s: float | None
) -> list[Outcome]:
    """Decide requests in one transaction, in their order, and commit to paying what is approved.

    What somebody else holds is waited for `wait_s` seconds; if that is None, the requests that need it come back as
    `Undecided`. So do, in any case, those that only another batch can decide, after this one; never the first.

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
        judged, carriers, turns = judge_and_sign(list(zip(requests, found, strict=True)), environment, check)
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
    return [_outcome_of(turn, entries) for turn in turns]


def _outcome_of(turn: Turn, entries: Mapping[int, LogEntry]) -> Outcome:
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


def _read_earlier(request: PaymentRequest, earlier: EarlierDecision) -> LogEntry:
    with within_group_of(request.agent_id):
        entry = earlier.entry or LogEntry.objects.get(pk=earlier.entry_id)
        if bytes(entry.fingerprint or b"") != request.fingerprint:
            raise IdempotencyConflict
        return follow(entry)

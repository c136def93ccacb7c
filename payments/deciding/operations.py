"""The money path: one payment request, decided once.

One database transaction of two round trips and a commit, without any other network call: lock and read, evaluate,
prepare, record. Errors of a decision are raised after the commit, so that the decision is not lost with them.
Source: docs/interface-specification.md, "POST /v1/payments/request"; docs/architecture.md, "One payment's way".
"""

import logging
import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import localcontext
from functools import partial

from django.db import transaction

from allowance.kernel.errors import (
    DEFAULT_RETRY_AFTER_S,
    IdempotencyConflict,
    PolicySignerUnavailable,
    RateLimited,
)
from allowance.kernel.ids import time_of
from allowance.kernel.money import EXACT
from allowance.kernel.repeated_logs import log_once_a_minute
from allowance.kernel.times import LARGEST_SKEW, utc_now
from chains.port import ChainUnavailable, SignerUnavailable
from ledger.clocks import Reading, clocks_agree
from ledger.models import LogEntry
from ledger.queries import find_fitting_moment
from payments.deciding.decisions import explain_approval, explain_refusal, make_entry, make_facts, refusal
from payments.deciding.locked import Locked
from payments.deciding.money_path import EarlierDecision, Prepared, lock_and_read, record
from payments.deciding.preparation import prepare_payment
from payments.deciding.requests import Environment, PaymentRequest
from policy.rules import SIGNER_RULE, Decision, Explanation, evaluate

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Approval:
    """An approval; `is_replay`: it was decided earlier, for the same key."""

    entry: LogEntry
    is_replay: bool


def request_payment(request: PaymentRequest, environment: Environment) -> Approval:
    """Decide a payment request and, if it is approved, commit to paying it.

    Raises:
        AgentNotFound: nothing is logged.
        IdempotencyConflict: the key is known with another payload; nothing is logged.
        AgentPaused, ServiceNotApproved, InvalidRequest (asset, minimum), BudgetExceeded: blocked by policy, and logged.
        PolicySignerUnavailable: the request could not be evaluated, co-signed or prepared. Logged without its key, so
            that the same key is evaluated again; not logged if the agent could not be locked in time, if clocks
            disagree, or if the same refusal of the same request was logged just now.
        RateLimited: refused, after too many refusals in the last minute; not logged.
    """
    with localcontext(EXACT), transaction.atomic():
        asked_at = environment.now or utc_now()
        found = lock_and_read(request, environment.now, environment.refusals_per_minute)
        is_replay = isinstance(found, EarlierDecision)
        if isinstance(found, EarlierDecision):
            entry, prepared = _read_earlier(request, found.entry_id), None
        else:
            _check_clocks(request, found, asked_at, environment.now or utc_now())
            entry, prepared = _decide(request, found, environment)
    if entry.payment_id is None:
        raise refusal(entry, is_replay=is_replay)
    if prepared is not None:
        environment.wake(prepared.payee.chain)
    return Approval(entry, is_replay)


def _decide(request: PaymentRequest, locked: Locked, environment: Environment) -> tuple[LogEntry, Prepared | None]:
    """Evaluate the rules, sign an approved payment, and record the decision."""
    facts = make_facts(request, locked, environment.minimums)
    decision = evaluate(facts)
    prepared: Prepared | None = None
    if decision.is_approved:
        try:
            prepared = prepare_payment(request, locked, environment)
        except (SignerUnavailable, ChainUnavailable) as error:
            decision = Decision(is_approved=False, rule=SIGNER_RULE, explanation=Explanation(str(error)))
    if prepared is not None:
        explanation = explain_approval(decision, facts, prepared.payee.recipient)
    else:
        if (repeated := _find_repeated_refusal(decision, locked)) is not None:
            return repeated, None
        _limit_refusals(locked)
        find_moment = partial(find_fitting_moment, request.agent_id, locked.agent.spent_total, locked.decided_at)
        explanation = explain_refusal(decision, find_moment)
    try:
        entry = make_entry(request, locked, decision, explanation, prepared=prepared, signer=environment.signer)
    except SignerUnavailable as error:
        # Not even a refusal can be sealed, so none is recorded: nothing was decided.
        raise PolicySignerUnavailable from error
    record(entry, request, prepared)
    return entry, prepared


def _read_earlier(request: PaymentRequest, entry_id: str) -> LogEntry:
    entry = LogEntry.objects.get(pk=entry_id)
    if bytes(entry.fingerprint or b"") != request.fingerprint:
        raise IdempotencyConflict
    return entry


def _check_clocks(request: PaymentRequest, locked: Locked, asked_at: datetime, answered_at: datetime) -> None:
    """Raise `PolicySignerUnavailable` if the time is not certain: a decision would be logged with a wrong time."""
    is_trusted = clocks_agree(Reading(asked_at, locked.clock_at, answered_at))
    last_entry_at = locked.agent.last_entry_at
    ahead = timedelta(0) if last_entry_at is None else last_entry_at - locked.clock_at
    if ahead > LARGEST_SKEW:
        log_once_a_minute(
            log,
            logging.ERROR,
            "The last entry of %s is %s s in the future: its payments are refused until then; or run manage.py clocks",
            request.agent_id,
            ahead.total_seconds(),
            about=request.agent_id,
        )
    if not is_trusted or ahead > LARGEST_SKEW:
        raise PolicySignerUnavailable("The time is not certain here, so nothing can be decided. Try again later.")


def _find_repeated_refusal(decision: Decision, locked: Locked) -> LogEntry | None:
    """Find the entry of the same 503 for the same request, if it is younger than its `Retry-After`."""
    if decision.rule is not SIGNER_RULE or locked.refused_entry_id is None:
        return None
    if locked.decided_at - time_of(locked.refused_entry_id) >= timedelta(seconds=DEFAULT_RETRY_AFTER_S):
        return None
    entry = LogEntry.objects.get(pk=locked.refused_entry_id)
    return entry if entry.explanation["message"] == decision.explanation.message else None


def _limit_refusals(locked: Locked) -> None:
    """Raise `RateLimited`, without logging, beyond the limit of refusals in a minute: the log is kept for ever."""
    if locked.refusing_since is not None:
        wait = locked.refusing_since + timedelta(minutes=1) - locked.decided_at
        raise RateLimited(
            "Too many payments of this agent were refused in the last minute. This one is, too, and is not logged.",
            retry_after_s=max(1, math.ceil(wait.total_seconds())),
            counted="refusals",
        )

"""Judge one request by the facts: ask the rules, and prepare what they let pass. Signs and writes nothing."""

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from chains.port import ChainUnavailable, SignerUnavailable
from foundation.kernel.errors import PolicySignerUnavailable, RateLimited
from foundation.kernel.ids import time_of
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.times import LARGEST_SKEW
from ledger.clocks import Reading, clocks_agree
from ledger.models import LogEntry
from ledger.queries import find_fitting_moment
from ledger.receipts import request_digest
from payments.deciding.counted import NOTHING_HELD
from payments.deciding.entries import FindMoment, explain_answer, explain_approval, explain_hold, explain_refusal
from payments.deciding.facts import facts_of
from payments.deciding.known import Known
from payments.deciding.new_holds import begin_hold
from payments.deciding.preparation import check_demand, payment_payload, prepare_payment
from payments.deciding.requests import Environment, PaymentRequest, Prepared
from payments.deciding.running import Judged, RunningBatch
from policy.asking import ask_rules
from policy.facts import Facts
from policy.holding_rules import PERSON_RULE
from policy.rule import Decision, Explanation, Measure, Wait
from policy.rules import SIGNER_RULE, rules_for_approved

log = logging.getLogger(__name__)
P = TypeVar("P")

# What a person has approved is a payment to this address.
_MOVED = "The payee was registered at another address while this payment waited for approval: ask again."
# For so long the same 503 to the same request is one entry of the log.
ONE_OUTAGE = timedelta(days=1)


def judge(request: PaymentRequest, known: Known, batch: RunningBatch, environment: Environment) -> Judged | LogEntry:
    """Ask the rules, prepare an approved payment, and add the decision to its batch.

    Returns the earlier one if the same 503 to the same request was decided already: in the batch, or its log entry.

    Raises:
        RateLimited: refused, after too many refusals in the last minute; or too many payments of the agent are held.
        DecideAgain: only the database can tell what follows from the earlier requests of the batch.
    """
    known = batch.advance(request, known)
    facts = facts_of(request, known, environment, batch)
    asked = _ask(request, known, facts)
    decision, prepared = approve_or_refuse(asked, lambda: _prepare(request, known, environment, batch))
    hold = None
    if prepared is not None:
        explanation = explain_approval(decision, facts, prepared.payee.recipient, prepared.escrow_id)
        if prepared.authorization is not None and request.demand is not None:
            explanation["paymentPayload"] = payment_payload(prepared.authorization, request.demand)
    elif decision.is_held and known.payee is not None:
        check_demand(request, known, environment)
        hold = begin_hold(known, facts)
        explanation = explain_hold(decision, facts, known.payee.recipient, hold.expires_at)
    elif request.held is not None:
        explanation = _explain_end(request, decision, facts, known)
    else:
        if (repeated := _find_repeated_refusal(request, decision, known, batch)) is not None:
            return repeated
        explanation = _explain_refusal(request, decision, facts, known, batch)
    if request.held is not None:
        explanation |= explain_answer(request.held)
    judged = Judged(request, known, decision, explanation, prepared, hold)
    batch.add(judged)
    return judged


def _prepare(request: PaymentRequest, known: Known, environment: Environment, batch: RunningBatch) -> Prepared:
    batch.require_signable(request)
    return prepare_payment(request, known, environment, batch.gas_on)


def _ask(request: PaymentRequest, known: Known, facts: Facts) -> Decision:
    """Ask the rules; of a payment that was held, ask those of the person, who has answered, no more."""
    if request.held is None:
        return ask_rules(facts)
    if request.held.refusal is not None:
        return Decision(is_approved=False, rule=PERSON_RULE, explanation=Explanation(request.held.refusal))
    if known.payee is not None and known.payee.recipient != request.held.recipient:
        return Decision(is_approved=False, rule=PERSON_RULE, explanation=Explanation(_MOVED))
    return ask_rules(facts, rules_for_approved)


def _explain_end(request: PaymentRequest, decision: Decision, facts: Facts, known: Known) -> dict[str, Any]:
    """Explain why a payment that was held is refused; raise if it can only not be signed now."""
    if decision.rule is SIGNER_RULE:
        raise PolicySignerUnavailable(decision.explanation.message)
    return explain_refusal(decision, facts, find_moments(request, known))


def approve_or_refuse(decision: Decision, prepare: Callable[[], P]) -> tuple[Decision, P | None]:
    """Prepare what all rules have let pass; what cannot be prepared is refused by `SIGNER_RULE`.

    Returns None instead of what was prepared, unless the payment is approved.
    """
    if not decision.is_approved:
        return decision, None
    try:
        return decision, prepare()
    except (SignerUnavailable, ChainUnavailable) as error:
        why = Explanation(str(error))
        return Decision(is_approved=False, rule=SIGNER_RULE, explanation=why), None


def find_moments(request: PaymentRequest, known: Known) -> FindMoment:
    """Give the search for the moment at which what a limit waits for has come to pass."""

    def find(wait: Wait) -> datetime | None:
        waiting = next((one for one in known.levels if one.agent.id == wait.level), known)
        held = waiting.held or NOTHING_HELD
        held_of = {
            Measure.SPENT: held.amount,
            Measure.PAYMENTS: held.payments,
            Measure.PAYEE_SPENT: held.to_payee,
        }
        if (room := wait.most_spent - held_of[wait.measure]) < 0:
            return None  # first a person has to answer
        total = {
            Measure.SPENT: waiting.agent.spent_total,
            Measure.PAYMENTS: waiting.counted and waiting.counted.payments,
            Measure.PAYEE_SPENT: waiting.payee_counted and waiting.payee_counted.spent,
        }
        fits = replace(wait, most_spent=room)
        return find_fitting_moment(
            waiting.agent.id, request.service, total[wait.measure] or Decimal(0), known.decided_at, fits
        )

    return find


def _explain_refusal(
    request: PaymentRequest, decision: Decision, facts: Facts, known: Known, batch: RunningBatch
) -> dict[str, Any]:
    _limit_refusals(batch.refusing_since(request.agent_id, known), known.decided_at)
    return explain_refusal(decision, facts, find_moments(request, known))


def check_clocks(request: PaymentRequest, known: Known, asked_at: datetime, answered_at: datetime) -> None:
    """Raise `PolicySignerUnavailable` if the time is not certain: a decision would be logged with a wrong time."""
    is_trusted = clocks_agree(Reading(asked_at, known.clock_at, answered_at))
    ahead = known.decided_at - known.clock_at
    if ahead > LARGEST_SKEW:
        log_once_a_minute(
            log,
            logging.ERROR,
            "The last entry of %s, or of those that it shares a budget with, is %s s in the future: its payments are "
            "refused until then; or run manage.py clocks",
            request.agent_id,
            ahead.total_seconds(),
            about=request.agent_id,
        )
    if not is_trusted or ahead > LARGEST_SKEW:
        raise PolicySignerUnavailable("The time is not certain here, so nothing can be decided. Try again later.")


def _find_repeated_refusal(
    request: PaymentRequest, decision: Decision, known: Known, batch: RunningBatch
) -> Judged | LogEntry | None:
    """Find the same 503 for the same request: the log is kept for ever, and clients ask every few seconds.

    One of another reason, or older than a day, tells of another outage. Reasons can take turns, as those of nodes that
    come and go do: each has an entry.
    """
    if decision.rule is not SIGNER_RULE:
        return None
    if (same := batch.find_refused(request, decision)) is not None:
        return same
    if (newest := known.refused_entry_id) is None or known.decided_at - time_of(newest) >= ONE_OUTAGE:
        return None
    digest = request_digest(request.idempotency_key, request.fingerprint)
    lately = (known.decided_at - ONE_OUTAGE, known.decided_at)
    logged = LogEntry.objects.filter(agent=request.agent_id, refused_request=digest, created_at__range=lately)
    why = decision.explanation.message
    entries = logged.order_by("-created_at")
    return next((one for one in entries if one.rule == SIGNER_RULE.name and one.explanation["message"] == why), None)


def _limit_refusals(refusing_since: datetime | None, decided_at: datetime) -> None:
    """Raise `RateLimited`, without logging, beyond the limit of refusals in a minute: the log is kept for ever."""
    if refusing_since is not None:
        wait = refusing_since + timedelta(minutes=1) - decided_at
        raise RateLimited(
            "Too many payments of this agent were refused in the last minute. This one is, too, and is not logged.",
            retry_after_s=max(1, math.ceil(wait.total_seconds())),
            counted="refusals",
        )

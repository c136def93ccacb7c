"""End what waits for a person's approval: once they have answered, it has expired, or it may not be paid any more.

What was approved is judged again, by the policy and the facts of this moment, in one transaction with the end of its
hold: it counts as held until then, and as paid from then on. Rows are the queue; whoever comes second finds it ended.
"""

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from django.db import OperationalError, connection, transaction
from django.db.models import Q

from foundation.database import brief_transaction
from foundation.kernel.assets import Asset
from foundation.kernel.errors import InvalidRequest, OperationRefused, PolicySignerUnavailable
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.telemetry.context import working_on
from ledger.clocks import read_clocks
from ledger.models import Hold, HoldAnswer, LogEntry
from payments.deciding.operations import decide_together
from payments.deciding.reading import LONGEST_WAIT_S, HeldTooLong, is_held_by_another
from payments.deciding.requests import Demand, Environment, HeldPayment, PaymentRequest
from policy.models import Agent, AgentStatus, ApiKey
from policy.parents import lock_with_ancestors

log = logging.getLogger(__name__)

_HOUR = timedelta(hours=1)


def finish_holds(environment: Environment) -> int:
    """End what can be ended; returns how many payments were decided."""
    now = _now(environment)
    return sum(_finish_safely(payment_id, environment) for payment_id in _find_ended(now))


def finish_hold(payment_id: str, environment: Environment) -> LogEntry | None:
    """Decide a payment that was held, if it waits for nobody any more; None: it does, or it was decided before.

    Raises:
        PolicySignerUnavailable: it was approved and cannot be signed now; nothing has changed.
    """
    now = _now(environment)
    try:
        return _finish(payment_id, environment, now)
    except PolicySignerUnavailable:
        if not Hold.objects.get(pk=payment_id).is_expired(now):
            raise
        return _finish(payment_id, environment, now, "It was approved, but could not be signed before it expired.")
    except InvalidRequest as error:
        # Time does not help: the payee asks for what its chain does not authorize any more (x402).
        why = " ".join(one["message"] for one in error.details.get("fields", ())) or error.message
        return _finish(payment_id, environment, now, f"It was approved, but its payee cannot take it: {why}")


def _now(environment: Environment) -> datetime:
    """Read the database's clock, which dates the decision: what it says of the end has to fit that."""
    return environment.now or read_clocks().database


def _find_ended(now: datetime) -> list[str]:
    revoked = ApiKey.objects.filter(revoked_at__isnull=False).values("pk")
    is_over = ~Q(answer="") | Q(expires_at__lte=now) | ~Q(agent__status=AgentStatus.ACTIVE) | Q(api_key__in=revoked)
    waiting = Hold.objects.filter(ended_at=None)
    above = {one for path in waiting.exclude(ancestors=None).values_list("ancestors", flat=True) for one in path or ()}
    if paused := _paused_of(above):
        is_over |= Q(ancestors__overlap=paused)
    return list(waiting.filter(is_over).order_by("id").values_list("pk", flat=True))


def _paused_of(agents: Iterable[str]) -> list[str]:
    asked = Agent.objects.filter(pk__in=list(agents)).exclude(status=AgentStatus.ACTIVE)
    return list(asked.values_list("pk", flat=True))


def _finish_safely(payment_id: str, environment: Environment) -> bool:
    """Finish one of many: what keeps it does not keep the others."""
    try:
        with working_on(paymentId=payment_id):
            return finish_hold(payment_id, environment) is not None
    except (PolicySignerUnavailable, HeldTooLong) as error:
        log_once_a_minute(log, logging.WARNING, "%s will be decided later: %s", payment_id, error, about=payment_id)
    except Exception:  # noqa: BLE001 - whatever keeps one, the others are decided; it is tried again each second
        says = "%s could not be decided"
        log_once_a_minute(log, logging.ERROR, says, payment_id, about=payment_id, exc_info=True)
    return False


def _finish(payment_id: str, environment: Environment, now: datetime, refusal: str = "") -> LogEntry | None:
    agent_id = Hold.objects.values_list("agent_id", flat=True).get(pk=payment_id)
    with brief_transaction():
        agent = _lock_agent(agent_id)
        hold = Hold.objects.select_for_update().select_related("entry").get(pk=payment_id)
        if hold.ended_at is not None:
            return None
        reasons = [refusal] if refusal else [*_find_refusals(hold, agent, now)]
        if not reasons and hold.answer != HoldAnswer.APPROVE:
            return None
        request = _request_of(hold, reasons[0] if reasons else None)
        # Nobody is woken for what is not committed yet.
        later = replace(environment, wake=lambda chain: transaction.on_commit(partial(environment.wake, chain)))
        (outcome,) = decide_together([request], later, wait_s=LONGEST_WAIT_S)
        if isinstance(outcome, LogEntry):
            return outcome
        raise outcome if isinstance(outcome, Exception) else TypeError(f"{outcome} is no outcome of a hold.")


def _lock_agent(agent_id: str) -> Agent:
    """Lock an agent as a payment does; somebody who holds one for long does not keep the holds of all others."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{round(LONGEST_WAIT_S)}s"])
    try:
        return lock_with_ancestors(agent_id)
    except OperationRefused as error:  # it was moved while it was waited for
        raise HeldTooLong(str(error)) from error
    except OperationalError as error:
        if is_held_by_another(error):
            raise HeldTooLong from error
        raise


def _find_refusals(hold: Hold, agent: Agent, now: datetime) -> Iterator[str]:
    """Yield why it is refused before any rule is asked."""
    if ApiKey.objects.filter(pk=hold.api_key, revoked_at__isnull=False).exists():
        yield "The API key that asked for this payment was revoked while it waited for approval."
    if hold.answer == HoldAnswer.DECLINE:
        yield f"A person has declined this payment: {hold.answer_reason}"
    elif not hold.answer and agent.status != AgentStatus.ACTIVE:
        yield "The agent was paused while this payment waited for approval."
    elif not hold.answer and (paused := _paused_of(agent.ancestors or ())):
        yield f"{paused[0]}, above the agent, was paused while this payment waited for approval."
    elif not hold.answer and hold.is_expired(now):
        hours = round((hold.expires_at - hold.created_at) / _HOUR)
        yield f"Nobody has approved this payment within {hours} {'hour' if hours == 1 else 'hours'}."


def _request_of(hold: Hold, refusal: str | None) -> PaymentRequest:
    """Make the request again, as it was asked for."""
    entry = hold.entry
    return PaymentRequest(
        agent_id=hold.agent_id,
        service=hold.service,
        amount=hold.amount,
        amount_text=entry.amount,
        asset=Asset(entry.asset),
        reason=entry.reason,
        metadata_json=entry.metadata_json,
        idempotency_key=entry.idempotency_key or "",
        fingerprint=bytes(entry.fingerprint or b""),
        demand=None if hold.demand_json is None else Demand.of(json.loads(hold.demand_json)),
        held=_held_payment(hold, refusal),
        asked_with=hold.api_key,
    )


def _held_payment(hold: Hold, refusal: str | None) -> HeldPayment:
    return HeldPayment(
        payment_id=hold.id,
        entry_id=hold.entry.id,
        asked_at=hold.created_at,
        answer=hold.answer,
        answered_by=hold.answered_by,
        answer_reason=hold.answer_reason,
        refusal=refusal,
        expires_at=hold.expires_at,
        recipient=str(hold.entry.explanation["recipient"]),
    )

"""Compare what was held for a person's approval with the log: what held it, what ended it, and who has answered."""

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

from django.db.models import Q

from foundation.database import in_batches
from foundation.kernel.times import format_instant
from ledger.judgements import read_explanation
from ledger.models import Hold, HoldAnswer, LogEntry, Result
from policy.holding_rules import HOLDING, PERSON_RULE
from policy.models import Agent, PolicyRevision
from staff.models import AuditEntry

_NAMES = tuple(rule.name for rule in HOLDING)


def key_of(entry: LogEntry) -> str:
    """Return the idempotency key that a decision was asked for with; that of a hold's end is its beginning's."""
    if (begun := read_explanation(entry).get("heldBy")) is None:
        return entry.idempotency_key or ""
    keys = LogEntry.objects.filter(pk=begun, agent_id=entry.agent_id, result=Result.HELD)
    return keys.values_list("idempotency_key", flat=True).first() or ""


def find_wrong_holds(agent: Agent) -> Iterator[str]:
    """Yield what is wrong with an agent's payments that waited for approval: held once and ended once, as logged."""
    log = LogEntry.objects.filter(agent=agent)
    held = {entry.id: entry for entry in in_batches(log.filter(result=Result.HELD), "id")}
    ends: dict[str, LogEntry] = {}
    for entry in in_batches(log.filter(explanation_json__contains='"heldBy"'), "id"):
        begun = read_explanation(entry).get("heldBy")
        if begun in ends:
            yield f"The decisions {ends[begun].id} and {entry.id} end the same hold {begun}."
        elif begun is not None:
            ends[begun] = entry
    holds = {hold.entry_id: hold for hold in in_batches(Hold.objects.filter(agent=agent), "id")}
    for hold in holds.values():
        if hold.ended_at is None and hold.ancestors != agent.ancestors:
            yield f"{hold.id} does not count at the agents above this one."
    for entry_id, entry in held.items():
        yield from _problems_of(entry, holds.pop(entry_id, None), ends.pop(entry_id, None))
    yield from (f"{hold.id} is held by no decision." for hold in holds.values())
    yield from (f"The decision {end.id} ends a hold that no decision began." for end in ends.values())


def _problems_of(begun: LogEntry, hold: Hold | None, end: LogEntry | None) -> Iterator[str]:
    if hold is None:
        yield f"The decision {begun.id} holds a payment that is not there."
        return
    asked = (begun.payment_id, begun.service, _number(begun.amount), format_instant(begun.created_at))
    held = (hold.id, hold.service, hold.amount, format_instant(hold.created_at))
    if held != asked or begun.rule not in _NAMES:
        yield f"{hold.id} is not what the decision {begun.id} holds."
    if read_explanation(begun).get("approvalExpiresAt") != format_instant(hold.expires_at):
        yield f"{hold.id} expires at another moment than the decision {begun.id} says."
    if (hold.final_entry_id, hold.ended_at) != (end and end.id, end and end.created_at):
        yield f"{hold.id} was not ended by the decision that the log has."
    if hold.answer and not _is_in_the_audit(hold):
        yield f"{hold.id} has an answer by {hold.answered_by} of which the audit has nothing."
    if end is not None:
        yield from _problems_of_end(begun, hold, end)


def _is_in_the_audit(hold: Hold) -> bool:
    answers = AuditEntry.objects.filter(subject_type="payment", subject=hold.id, author=hold.answered_by)
    return answers.filter(action=hold.audited_as, reason=hold.answer_reason).exists()


def _problems_of_end(begun: LogEntry, hold: Hold, end: LogEntry) -> Iterator[str]:
    # After a clock repair, time has gone back.
    is_before = end.clock_repairs == begun.clock_repairs and end.created_at < begun.created_at
    if _asked_for(begun) != _asked_for(end) or is_before:
        yield f"The decision {end.id} is not about what {begun.id} holds."
    explanation = read_explanation(end)
    answered = tuple(explanation.get(name, "") for name in ("answer", "answeredBy", "answerReason"))
    if answered != (hold.answer, hold.answered_by, hold.answer_reason):
        yield f"The decision {end.id} has another answer than {hold.id}."
    to = read_explanation(begun).get("recipient"), read_explanation(end).get("recipient")
    if end.result == Result.APPROVED and to[0] != to[1]:
        yield f"The decision {end.id} pays another recipient than was held by {begun.id}."
    if end.result == Result.APPROVED and (end.payment_id != hold.id or hold.answer != HoldAnswer.APPROVE):
        yield f"The decision {end.id} pays what nobody has approved."
    if end.result == Result.BLOCKED and hold.answer != HoldAnswer.APPROVE and end.rule != PERSON_RULE.name:
        yield f"The decision {end.id} asks the rules about what nobody has approved."


def _asked_for(entry: LogEntry) -> tuple[Any, ...]:
    return entry.service, entry.amount, entry.asset, entry.reason, entry.metadata_json


def find_unasked(entry: LogEntry, policy: PolicyRevision) -> Iterator[str]:
    """Yield what a person should have been asked about, by its policy, of an approved payment that was not held."""
    explanation, more = read_explanation(entry), policy.more
    if "heldBy" in explanation:
        return
    compared = ((more.approval_above, entry.amount), (more.approval_above_day, explanation.get("spentToday")))
    is_above = any(most is not None and _number(figure) > most for most, figure in compared)
    if is_above or (more.approval_for_first and not _has_paid_before(entry)):
        yield "It was approved without a person, whom its policy has asked."


def _has_paid_before(entry: LogEntry) -> bool:
    """Tell whether the agent had paid this payee before, whatever has become of that."""
    earlier = Q(created_at__lte=entry.created_at)
    if entry.clock_repairs is not None:
        earlier |= Q(clock_repairs=None) | Q(clock_repairs__lt=entry.clock_repairs)
    paid = LogEntry.objects.filter(earlier, agent_id=entry.agent_id, service=entry.service, result=Result.APPROVED)
    return paid.exclude(pk=entry.pk).exists()


def _number(text: Any) -> Decimal:
    """Read an amount; 0 if somebody made it unreadable, which the hash reveals as well."""
    try:
        number = Decimal(text) if isinstance(text, str) else Decimal(0)
    except InvalidOperation:
        return Decimal(0)
    return number if number.is_finite() else Decimal(0)

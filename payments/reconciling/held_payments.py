"""Compare what was held for a person's approval with the log: what held it, what ended it, and who has answered."""

from collections.abc import Iterator
from typing import Any

from foundation.database import in_batches
from foundation.kernel.times import format_instant
from ledger.judgements import read_explanation
from ledger.models import Hold, LogEntry, Result
from policy.holding_rules import HOLDING
from policy.models import Agent

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
    for entry_id, entry in held.items():
        yield from _problems_of(entry, holds.pop(entry_id, None), ends.pop(entry_id, None))
    yield from (f"{hold.id} is held by no decision." for hold in holds.values())
    yield from (f"The decision {end.id} ends a hold that no decision began." for end in ends.values())


def _problems_of(begun: LogEntry, hold: Hold | None, end: LogEntry | None) -> Iterator[str]:
    if hold is None:
        yield f"The decision {begun.id} holds a payment that is not there."
        return
    asked = (begun.payment_id, begun.service, format_instant(begun.created_at))
    if (hold.id, hold.service, format_instant(hold.created_at)) != asked or begun.rule not in _NAMES:
        yield f"{hold.id} is not what the decision {begun.id} holds."
    if read_explanation(begun).get("approvalExpiresAt") != format_instant(hold.expires_at):
        yield f"{hold.id} expires at another moment than the decision {begun.id} says."
    if hold.final_entry_id != (end and end.id):
        yield f"{hold.id} was not ended by the decision that the log has."
    if end is not None:
        yield from _problems_of_end(begun, hold, end)


def _problems_of_end(begun: LogEntry, hold: Hold, end: LogEntry) -> Iterator[str]:
    if _asked_for(begun) != _asked_for(end) or end.created_at < begun.created_at:
        yield f"The decision {end.id} is not about what {begun.id} holds."
    answered = (read_explanation(end).get("answeredBy", ""), read_explanation(end).get("answerReason", ""))
    if answered != (hold.answered_by, hold.answer_reason):
        yield f"The decision {end.id} names somebody else than has answered {hold.id}."
    if end.result == Result.APPROVED and (end.payment_id != hold.id or hold.answer != "approve"):
        yield f"The decision {end.id} pays what nobody has approved."


def _asked_for(entry: LogEntry) -> tuple[Any, ...]:
    return entry.service, entry.amount, entry.asset, entry.reason, entry.metadata_json

"""Check one log entry as evidence: its hash, its signature, its place in the chain, its idempotency record."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db.models import Q

from ledger.judgements import read_explanation
from ledger.models import ClockRepair, LogEntry
from ledger.receipts import FIRST_PREVIOUS_HASH, ReceiptError, receipt, request_digest, verify
from ledger.recorded import read_number
from policy.asking import rules_of_levels
from policy.facts import EXAMPLE_FACTS as _ANY
from policy.facts import PayeeFacts
from policy.models import PolicyRevision
from policy.rule import Rule
from policy.rules import SIGNER_RULE, rules_in_force


def find_seal_problems(entry: LogEntry, keys: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what is wrong with an entry by itself; `keys` are the published ones (JWKs)."""
    try:
        verify(receipt(entry), keys)
    except (ReceiptError, ValueError) as error:
        yield str(error)
    # A decision without its idempotency key, or with another one, would be made a second time; only a 503 may be.
    sealed = read_explanation(entry).get("request")
    kept = None
    if entry.idempotency_key is not None and entry.fingerprint is not None:
        kept = request_digest(entry.idempotency_key, bytes(entry.fingerprint))
    # What ends a hold is decided by the key of the entry that began it.
    has_none = entry.rule == SIGNER_RULE.name or "heldBy" in read_explanation(entry)
    if kept != sealed or (kept is None) != has_none:
        yield "The entry's idempotency record is not the one that was sealed."
    if entry.refused_request is not None and entry.rule != SIGNER_RULE.name:
        yield "The entry is not a 503, but would be repeated like one."


def is_judged_by(entry: LogEntry, policy: PolicyRevision) -> bool:
    """Tell whether an approval has recorded the limits of a revision, each as its rule records it."""
    return _has_limits(read_explanation(entry), entry, policy, rules_in_force(policy.more))


def is_level_judged_by(said: Mapping[str, Any], entry: LogEntry, policy: PolicyRevision) -> bool:
    """Tell whether what an approval says of an agent above the payer has the limits of that agent's revision."""
    return _has_limits(said, entry, policy, rules_of_levels(policy.more))


def keeps_limits(said: Mapping[str, Any], entry: LogEntry, policy: PolicyRevision) -> bool:
    """Tell whether no figure that an approval says of an agent above the payer is above the limit beside it."""
    compared = [rule.record.keeps for rule in rules_of_levels(policy.more) if rule.record and rule.record.keeps]
    figures = [
        (read_number(entry.amount if figure is None else said.get(figure)), read_number(said.get(limit)))
        for figure, limit in compared
    ]
    return all(limit is None or (figure is not None and figure <= limit) for figure, limit in figures)


def _has_limits(said: Mapping[str, Any], entry: LogEntry, policy: PolicyRevision, rules: Sequence[Rule]) -> bool:
    facts = replace(
        _ANY, payee=PayeeFacts(entry.service, is_approved=True, asset=entry.asset), more=policy.more,
        max_per_payment=policy.max_per_payment, daily_limit=policy.daily_limit, weekly_limit=policy.weekly_limit,
    )  # fmt: skip
    records = [rule.record for rule in rules if rule.record is not None]
    of_policy = {name: text for one in records for name, text in one.of(facts).items() if name in one.limits}
    return all(said.get(name) == text for name, text in of_policy.items())


def find_link_problem(entry: LogEntry) -> str:
    """Compare an entry with the one before it in its agent's chain; "" if it continues that one."""
    earlier = Q(created_at__lt=entry.created_at) | Q(created_at=entry.created_at, id__lt=entry.id)
    chain = LogEntry.objects.filter(agent_id=entry.agent_id, created_at__lte=entry.created_at)
    before = chain.filter(earlier, clock_repairs=entry.clock_repairs).order_by("-created_at", "-id")
    expected = before.values_list("hash", flat=True).first()
    if expected is None and entry.clock_repairs is not None:
        repairs = ClockRepair.objects.filter(agent_id=entry.agent_id, number=entry.clock_repairs)
        expected = repairs.values_list("head_hash", flat=True).first()
    if entry.previous_hash == (expected or FIRST_PREVIOUS_HASH):
        return ""
    return "The chain is broken: the entry before this one is missing, moved or changed."

"""How log entries stand in lists and in exports: the members of a receipt, in their order."""

import json
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from django.utils.html import format_html

from ledger.models import LogEntry, Result

_WORDS = {Result.APPROVED: "✓ approved", Result.BLOCKED: "✗ refused", Result.HELD: "○ held"}


def show_written(amount: str) -> str:
    """Show an amount as it was written, with separators between thousands."""
    whole, dot, fraction = amount.partition(".")
    return f"{int(whole):,}{dot}{fraction}" if whole.isascii() and whole.isdecimal() else amount


def decision_badge(entry: LogEntry) -> str:
    """Colour a decision, and say it."""
    return format_html('<span class="badge {}">{}</span>', entry.result, _WORDS[Result(entry.result)])


def _parsed(field: str) -> Callable[[LogEntry], Any]:
    def read(entry: LogEntry) -> Any:
        text = getattr(entry, field)
        try:
            return None if text is None else json.loads(text)
        except ValueError:
            return text  # somebody made it unreadable: it is exported as it is

    return read


ENTRY_COLUMNS: dict[str, Callable[[LogEntry], Any]] = {
    "id": attrgetter("id"),
    "agentId": attrgetter("agent_id"),
    "service": attrgetter("service"),
    "amount": attrgetter("amount"),
    "asset": attrgetter("asset"),
    "result": attrgetter("result"),
    "rule": attrgetter("rule"),
    "createdAt": attrgetter("created_at"),
    "reason": attrgetter("reason"),
    "metadata": _parsed("metadata_json"),
    "policyRevision": lambda entry: f"polrev_{entry.policy_revision}",
    "paymentId": attrgetter("payment_id"),
    "tx": attrgetter("tx"),
    "explanation": _parsed("explanation_json"),
    "hash": attrgetter("hash"),
    "previousHash": attrgetter("previous_hash"),
    "signature": attrgetter("signature"),
    "keyId": attrgetter("key_id"),
}

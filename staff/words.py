"""Write what the audit holds in words for people."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Where the words do not follow from the name. All others do: agent.paused is "Agent paused".
_ACTIONS = {
    "webhook.secret_shown": "Signing secret shown",
    "webhook.secret_rotated": "Signing secret rotated",
    "webhook.secrets_resealed": "Signing secrets encrypted under a new key",
    "webhook.replayed": "Webhooks replayed",
    "webhook.tested": "Test event sent",
    "chain.caught_up": "Chain compared with the ledger",
    "chain.started": "Signing on a chain started",
    "chain.stopped": "Signing on a chain stopped",
    "delivery.sent_again": "Webhook sent again",
    "escrow.rotation_begun": "Rotation of an escrow's keys begun",
    "escrow.rotated": "Escrow's keys rotated",
    "escrow.move_begun": "Exchange of an escrow begun",
    "escrow.moved": "Escrow exchanged",
    "agent.recounted": "Payments of an agent counted anew",
    "agent.clock_repaired": "Clock of an agent repaired",
    "shadow.begun": "Shadow of a policy begun",
    "shadow.dropped": "Shadow of a policy dropped",
    "shadow.adopted": "Shadow of a policy put in force",
    "request.asked": "Second person asked for",
    "request.taken_back": "Request taken back",
    "withdrawal.prepared": "Transaction of a withdrawal prepared",
}
_SUBJECTS = {
    "webhook": "Webhook endpoint",
    "delivery": "Webhook delivery",
    "signer": "Policy signer",
    "shadow": "Shadow of a policy",
}
# What "nothing" means, where it is more than that.
_ABSENT = {
    "allowedServices": "every approved payee",
    "allowedHours": "at any time",
    "addressRanges": "from everywhere",
    "expiresAt": "never",
}
_BY_TAG = "every approved payee with one of the allowed tags"
# Of members with others inside, those whose names are ids: they stay as they are.
_BY_ID = ("payeeLimits",)
_SHORT = {"api": "API", "url": "URL", "id": "ID", "tx": "transaction", "service": "payee", "services": "payees"}
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_STATES = ("status", "state")


@dataclass(frozen=True, slots=True)
class Difference:
    """What a member was and is, in words; None: nothing is known of it."""

    name: str
    before: str | None
    after: str | None

    @property
    def is_change(self) -> bool:
        return self.before != self.after


def name_action(action: str) -> str:
    """Name an action: `agent.paused` is "Agent paused"."""
    return _ACTIONS.get(action) or _words(action)


def name_subject_type(subject_type: str) -> str:
    """Name what something was done to: `api_key` is "API key"."""
    return _SUBJECTS.get(subject_type) or _words(subject_type)


def differences(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[Difference]:
    """Set what was and what is beside each other, member by member; what changed comes first."""
    was, now = dict(_flat(before or {})), dict(_flat(after or {}))
    found = [Difference(_words(name), was.get(name), now.get(name)) for name in {**now, **was}]
    return sorted(found, key=lambda one: not one.is_change)


def _flat(members: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in members.items():
        if isinstance(value, Mapping) and name not in _BY_ID:
            yield from _flat(value, f"{prefix}{name} ")
        else:
            # With tags, a policy that names no payees allows those that have one.
            by_tag = name == "allowedServices" and value is None and members.get("allowedTags")
            yield prefix + name, _BY_TAG if by_tag else _in_words(name, value)


def _in_words(name: str, value: Any) -> str:
    if value is None or value == "":
        return _ABSENT.get(name, "none")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_in_words(name, one) for one in value) or "none"
    if isinstance(value, Mapping):
        return "; ".join(f"{one}: {_members(members)}" for one, members in sorted(value.items()))
    text = str(value)
    if _INSTANT.fullmatch(text):
        return f"{text[:10]} {text[11:19]} UTC"
    return text.replace("_", " ") if name in _STATES else text


def _members(members: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_in_words(name, value)}" for name, value in members.items())


def _words(name: str) -> str:
    """Write a name of the API's, or of an action, as words: `dailyLimit` is "Daily limit"."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    words = [_SHORT.get(word.lower(), word.lower()) for word in re.split(r"[ ._]+", spaced) if word]
    text = " ".join(words)
    return text[:1].upper() + text[1:]

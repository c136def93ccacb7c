"""Two policies beside each other, in words."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from foundation.console.figures import show_amount
from payments.admin.agents.limit_words import NO_LIMIT, words_of_part
from policy.limits import Limits
from policy.more_limits import PARTS

_EVERY = "every approved payee"
_TAGGED = "with one of the allowed tags"


class Difference(NamedTuple):
    """A part of a policy as it was and as it is to be."""

    label: str
    old: str
    new: str
    is_changed: bool


def compare(old: Limits | None, new: Limits, asset: str) -> list[Difference]:
    """Set the parts of two policies beside each other; without an old one, nothing is changed."""
    return [
        _amounts("Per payment", None if old is None else old.max_per_payment, new.max_per_payment, asset),
        _amounts("Per day", None if old is None else old.daily_limit, new.daily_limit, asset),
        _amounts("Per week", None if old is None else old.weekly_limit, new.weekly_limit, asset),
        _services(old, new),
        *_optional(new if old is None else old, new, asset),
    ]


def services_words(allowed: Sequence[str] | None, tags: Sequence[str] | None) -> str:
    """Say which payees a policy allows."""
    if allowed is None:
        return _EVERY if tags is None else f"{_EVERY} {_TAGGED}"
    named = ", ".join(allowed) or "none"
    return named if tags is None else f"{named}, and {_EVERY} {_TAGGED}"


def _amounts(label: str, old: Decimal | None, new: Decimal, asset: str) -> Difference:
    shown = f"{show_amount(new)} {asset}"
    if old is None or old == new:
        return Difference(label, shown, shown, is_changed=False)
    return Difference(label, f"{show_amount(old)} {asset}", shown, is_changed=True)


def _optional(old: Limits, new: Limits, asset: str) -> Iterator[Difference]:
    """Compare each optional limit that one of them has."""
    for part in PARTS:
        was, becomes = (words_of_part(part, getattr(one.more, part.field), asset) for one in (old, new))
        for label in sorted({*was, *becomes}):
            before, after = was.get(label, NO_LIMIT), becomes.get(label, NO_LIMIT)
            yield Difference(label, before, after, is_changed=before != after)


def _services(old: Limits | None, new: Limits) -> Difference:
    was, shown = (services_words(one.allowed_services, one.more.allowed_tags) for one in (old or new, new))
    return Difference("May pay", was, shown, is_changed=was != shown)

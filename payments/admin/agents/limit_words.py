"""The optional limits of a policy in words."""

from datetime import datetime
from typing import Any

from foundation.console.figures import show_amount
from foundation.kernel.times import format_instant
from policy.limit_kinds import FLAG, PAYEES, TAGS
from policy.more_limits import LimitPart
from policy.payee_limits import NAMES, PayeeException

NO_LIMIT = "none"


def words_of_part(part: LimitPart, value: Any, asset: str) -> dict[str, str]:
    """Say an optional limit, by its label; each payee that is an exception by a label of its own. None: nothing."""
    if value is None:
        return {}
    if part.kind is PAYEES:
        return {f"Exception for {payee}": _say_exception(one, asset) for payee, one in value.items()}
    if part.kind.is_amount:
        return {part.label: f"{show_amount(value)} {asset}"}
    return {part.label: part.kind.write(value) if part.kind in (FLAG, TAGS) else _say(value)}


def write_moment(moment: datetime) -> str:
    """Write a moment in UTC, with parts of a second only where it has them."""
    return f"{format_instant(moment).removesuffix('Z').removesuffix('.000').replace('T', ' ')} UTC"


def _say(value: Any) -> str:
    if isinstance(value, datetime):
        return write_moment(value)
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def _say_exception(exception: PayeeException, asset: str) -> str:
    limits = ((name, exception.named[name]) for name in NAMES if name in exception.named)
    return ", ".join(
        f"no limit per {name}" if limit is None else f"{show_amount(limit)} {asset} per {name}"
        for name, limit in limits
    )

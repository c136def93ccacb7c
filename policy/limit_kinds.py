"""How the values of a policy's optional limits are read, written, shown and compared: a kind for each form. Pure.

A value is written as a text, which reads as the same value: in commands, files, forms, changes that wait, the audit and
the database. None is no limit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from foundation.kernel.assets import Asset
from foundation.kernel.money import format_amount, parse_amount
from foundation.kernel.times import format_instant, parse_instant
from policy.hours import Hours, parse_hours
from policy.payee_limits import parse_payee_limits, write_payee_limits
from policy.tags import parse_allowed_tags, write_tags

MOST_COUNTED = 1_000_000_000
MOST_HOURS = 366 * 24
_MOST_DIGITS = 20
_LONGEST_ID = 255


@dataclass(frozen=True, slots=True)
class LimitKind:
    """A form of values. `form` names it in a usage text; `lets_more` compares an old with a new value.

    `read` raises ValueError with a sentence; of an amount it needs the agent's asset. `json`: as the API shows a value.
    """

    form: str
    read: Callable[[str, Asset], Any]
    write: Callable[[Any], str]
    lets_more: Callable[[Any, Any], bool]
    json: Callable[[Any], Any]
    is_amount: bool = False


def _lets_more_up_to(old: Decimal | int | None, new: Decimal | int | None) -> bool:
    """Compare the most that is let pass; None: no limit."""
    return old is not None and (new is None or new > old)


def _lets_more_after(old: Decimal | int | None, new: Decimal | int | None) -> bool:
    """Compare what has to be waited for; None: nothing."""
    return old is not None and (new is None or new < old)


def _read_count(text: str, _asset: Asset) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) <= MOST_COUNTED):
        raise ValueError(f"Must be a whole number up to {MOST_COUNTED:,}.")
    return int(text)


def _read_positive(text: str, asset: Asset) -> int:
    if (number := _read_count(text, asset)) == 0:
        raise ValueError("Must be above zero.")
    return number


def _read_hours(text: str, asset: Asset) -> int:
    if (hours := _read_positive(text, asset)) > MOST_HOURS:
        raise ValueError(f"Must be a whole number up to {MOST_HOURS:,}: a year.")
    return hours


def _read_flag(text: str, _asset: Asset) -> bool:
    if text != "yes":
        raise ValueError('Must be "yes"; leave it out otherwise.')
    return True


def _read_agent(text: str, _asset: Asset) -> str:
    if not (0 < len(text) <= _LONGEST_ID and text.isprintable()):
        raise ValueError("Must be the id of an agent.")
    return text


AMOUNT = LimitKind(
    "AMOUNT",
    lambda text, asset: parse_amount(text, asset, allow_zero=True),
    format_amount,
    _lets_more_up_to,
    format_amount,
    is_amount=True,
)
COUNT = LimitKind("COUNT", _read_count, str, _lets_more_up_to, int)
# Of what has to be over first: the smaller the number, the more is let pass.
WAITED = LimitKind("COUNT", _read_positive, str, _lets_more_after, int)
HOURS_WAITED = LimitKind("COUNT", _read_hours, str, _lets_more_after, int)
# How long something may take. Neither more nor fewer of them let more pass.
HOURS_TO_ACT = LimitKind("COUNT", _read_hours, str, lambda _old, _new: False, int)
# Something that has to be there first: "yes", or nothing.
FLAG = LimitKind("yes", _read_flag, lambda _value: "yes", lambda old, new: old is True and new is None, bool)
HOURS = LimitKind(
    "HOURS",
    lambda text, _asset: parse_hours(text),
    str,
    lambda old, new: isinstance(old, Hours) and (new is None or not old.includes(new)),
    str,
)
SINCE = LimitKind(
    "MOMENT",
    lambda text, _asset: parse_instant(text),
    format_instant,
    lambda old, new: isinstance(old, datetime) and (new is None or new < old),
    format_instant,
)
UNTIL = LimitKind(
    "MOMENT",
    lambda text, _asset: parse_instant(text),
    format_instant,
    lambda old, new: isinstance(old, datetime) and (new is None or new > old),
    format_instant,
)
TAGS = LimitKind(
    "TAGS",
    lambda text, _asset: parse_allowed_tags(text),
    write_tags,
    lambda _old, _new: False,  # together with the allowed services: see `policy.limits`
    list,
)
# Whose limits hold as well: without them, or with those of another, something else may pass.
PARENT = LimitKind("AGENT", _read_agent, str, lambda old, new: old is not None and new != old, str)
PAYEES = LimitKind(
    "LIMITS",
    parse_payee_limits,
    write_payee_limits,
    lambda _old, _new: False,  # together with the default of all payees: see there
    lambda value: {payee: limits.shown() for payee, limits in value.items()},
)
# Kinds whose values are whole numbers.
NUMBERS = (COUNT, WAITED, HOURS_WAITED, HOURS_TO_ACT)

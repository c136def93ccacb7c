"""For each optional limit, texts from the one that lets most pass to the one that lets least; None is no such limit."""

from decimal import Decimal
from typing import Any

from foundation.kernel.assets import Asset
from policy.more_limits import PART_OF_FIELD, MoreLimits

_AMOUNTS = (None, "10.00", "5.00", "0.00")
_COUNTS = (None, "10", "5", "0")
LADDERS: dict[str, tuple[str | None, ...]] = {
    "hourly_limit": _AMOUNTS,
    "monthly_limit": _AMOUNTS,
    "total_limit": _AMOUNTS,
    "payments_per_hour": _COUNTS,
    "payments_per_day": _COUNTS,
    "payee_max_per_payment": _AMOUNTS,
    "payee_daily_limit": _AMOUNTS,
    "payee_weekly_limit": _AMOUNTS,
    "payee_limits": ("shop: day none", "shop: day 15.00", None, "shop: day 5.00", "a-1: week 9.00; shop: day 5.00"),
    "allowed_tags": (None, "compute, data", "data"),
    "allowed_hours": (None, "daily 00:00-24:00 UTC", "mon-fri 09:00-17:00 UTC", "mon-thu 09:00-16:59 UTC"),
    "allowed_from": (None, "2026-05-14T18:00:00.000Z", "2026-05-14T18:00:00.001Z"),
    "allowed_until": (None, "2099-05-14T18:00:00.001Z", "2099-05-14T18:00:00.000Z"),
    "new_payee_wait_hours": (None, "1", "24"),
    # These two are there together, or neither is.
    "new_payee_payments": ("1", "2", "5"),
    "new_payee_max_per_payment": _AMOUNTS[1:],
    "approval_above": _AMOUNTS,
    "approval_above_day": _AMOUNTS,
    "approval_for_first": (None, "yes"),
    # However long a payment waits, it is the same that pass.
    "approval_hours": ("8",),
}
# What a policy has beside a limit for the ladder to hold.
_BESIDE: dict[str, dict[str, Any]] = {
    "payee_limits": {"payee_daily_limit": Decimal(10)},
    "new_payee_payments": {"new_payee_max_per_payment": Decimal(1)},
    "new_payee_max_per_payment": {"new_payee_payments": 3},
    "approval_hours": {"approval_above": Decimal(5)},
}
# Each two rungs of a ladder: the field, the text that lets more pass, the one that lets less pass.
RUNGS = [
    (field, wider, narrower)
    for field, ladder in LADDERS.items()
    for place, wider in enumerate(ladder)
    for narrower in ladder[place + 1 :]
]


def optional(field: str, text: str | None) -> dict[str, Any]:
    """Read an optional limit, with what is beside it."""
    value = None if text is None else PART_OF_FIELD[field].kind.read(text, Asset.USDC)
    return {**_BESIDE.get(field, {}), field: value}


def limited(field: str, text: str | None) -> MoreLimits:
    """Make the optional limits of a rung."""
    return MoreLimits(**optional(field, text))

"""What is allowed as a policy, and hardly meant."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from foundation.console.figures import named, show_amount
from foundation.kernel.times import utc_now
from payments.admin.agents.limit_words import write_moment
from payments.admin.agents.moves import doubts_of_parent
from policy.limits import Limits
from policy.more_limits import PART_OF_FIELD
from services.models import Service

_HARDLY_A_LIMIT = 1_000_000
_AMOUNTS = ("max_per_payment", "daily_limit", "weekly_limit")
# None of these lets any payment pass if it is 0.
_OF_ALL = (*_AMOUNTS, "hourly_limit", "monthly_limit", "total_limit", "payments_per_hour", "payments_per_day")
_OF_PAYEES = ("payee_max_per_payment", "payee_daily_limit", "payee_weekly_limit")
# Two limits, what to say if the first is above the second, and what follows.
_WIDENING = (
    ("max_per_payment", "daily_limit", "The limit per payment is above that of a day",
     "no payment can be as large as it says"),
    ("daily_limit", "weekly_limit", "The limit of a day is above that of a week",
     "no day can be spent as far as it says"),
    ("max_per_payment", "hourly_limit", "The limit per payment is above that of an hour",
     "no payment can be as large as it says"),
    ("hourly_limit", "daily_limit", "The limit of an hour is above that of a day",
     "no hour can be spent as far as it says"),
    ("weekly_limit", "monthly_limit", "The limit of a week is above that of a month",
     "not every week can be spent as far as it says"),
    ("monthly_limit", "total_limit", "The limit of a month is above that in total",
     "no month can be spent as far as it says"),
    ("payments_per_hour", "payments_per_day", "More payments are allowed in an hour than in a day",
     "the limit of an hour is never reached"),
    ("payee_max_per_payment", "max_per_payment", "The limit per payment to one payee is above that of any payment",
     "it limits nothing"),
    ("payee_max_per_payment", "payee_daily_limit", "The limit per payment to one payee is above its limit of a day",
     "no payment can be as large as it says"),
    ("payee_daily_limit", "payee_weekly_limit", "The limit of a day to one payee is above its limit of a week",
     "no day can be spent as far as it says"),
    ("payee_daily_limit", "daily_limit", "The limit of a day to one payee is above that to all of them",
     "it limits nothing"),
    ("payee_weekly_limit", "weekly_limit", "The limit of a week to one payee is above that to all of them",
     "it limits nothing"),
    ("new_payee_max_per_payment", "max_per_payment", "The limit of first payments is above that of any payment",
     "it limits nothing"),
)  # fmt: skip


def warnings(limits: Limits, asset: str, *, now: datetime | None = None) -> list[str]:
    """Say where limits are allowed, and hardly meant; `now` replaces the clock."""
    return [
        *_of_order(limits),
        *_of_size(limits, asset),
        *_of_nothing(limits),
        *_of_time(limits, now or utc_now()),
        *_of_unknown_payees(limits),
        *_of_empty_tags(limits),
        *doubts_of_parent(limits),
    ]


def _of_order(limits: Limits) -> Iterator[str]:
    for narrower, wider, words, follows in _WIDENING:
        low, high = _value(limits, narrower), _value(limits, wider)
        if low is not None and high is not None and low > high:
            yield f"{words}: {follows}."


def _of_size(limits: Limits, asset: str) -> Iterator[str]:
    highest = max(_value(limits, name) for name in _AMOUNTS)
    if highest >= _HARDLY_A_LIMIT:
        yield f"{show_amount(highest)} {asset} is so much that it is hardly a limit."


def _of_nothing(limits: Limits) -> Iterator[str]:
    more = limits.more
    if any(_value(limits, name) == 0 for name in _OF_ALL):
        yield "A limit of 0 lets no payment pass."
    if any(_value(limits, name) == 0 for name in _OF_PAYEES):
        others = "no payment pass" if more.payee_limits is None else "payments pass to the exceptions alone, if at all"
        yield f"A limit of 0 to each payee lets {others}."
    if more.new_payee_max_per_payment == 0:
        yield "A limit of 0 for first payments lets no payee be paid that was never paid before."


def _of_time(limits: Limits, now: datetime) -> Iterator[str]:
    begins, ends = limits.more.allowed_from, limits.more.allowed_until
    if ends is not None and ends <= now:
        yield f"The allowance ended at {write_moment(ends)}: no payment passes."
    elif begins is not None and begins > now:
        yield f"The allowance begins at {write_moment(begins)}: no payment passes before."


def _of_unknown_payees(limits: Limits) -> Iterator[str]:
    payees = limits.more.payee_limits or {}
    if not payees:
        return
    known = set(Service.objects.filter(pk__in=list(payees)).values_list("pk", flat=True))
    if unknown := sorted(payees.keys() - known):
        yield f"No payee has the id of an exception: {named(unknown)}."


def _of_empty_tags(limits: Limits) -> Iterator[str]:
    tags = limits.more.allowed_tags or ()
    if empty := [tag for tag in tags if not Service.objects.filter(tags__contains=[tag]).exists()]:
        yield f"No payee has an allowed tag: {named(empty)}."


def _value(limits: Limits, name: str) -> Any:
    return getattr(limits.more if name in PART_OF_FIELD else limits, name)

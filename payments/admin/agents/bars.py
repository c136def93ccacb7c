"""A bar for each limit of an agent of which it is known how much is used."""

from decimal import Decimal
from typing import NamedTuple

from django.utils.safestring import SafeString

from foundation.console.figures import show_figure
from foundation.kernel.errors import OperationRefused
from ledger.queries import COUNTED, Budget
from payments.admin.agents.usage import usage_bar
from policy.more_limits import NO_MORE, MoreLimits
from policy.rule import Figure

# Narrow windows first, amounts before numbers: a title, and what a bar is called.
_NAMES = {
    "hourly_limit": ("Last 60 minutes", "hourly limit"),
    "daily_limit": ("Last 24 hours", "daily limit"),
    "weekly_limit": ("Last 7 days", "weekly limit"),
    "monthly_limit": ("Last 30 days", "monthly limit"),
    "total_limit": ("In total", "total limit"),
    "payments_per_hour": ("Payments in 60 minutes", "payments per hour"),
    "payments_per_day": ("Payments in 24 hours", "payments per day"),
}
_NOT_COUNTED = "It cannot be counted at present."


class Bar(NamedTuple):
    """What is used of a limit, drawn; `left`: what is left of it, in words."""

    title: str
    drawn: SafeString | str
    left: str


def readable_limits(budget: Budget) -> tuple[MoreLimits, str]:
    """Read the optional limits; if only a later release knows one, say so: the agent can still be paused here."""
    try:
        return budget.more, ""
    except OperationRefused as refusal:
        return NO_MORE, str(refusal)


def draw_bars(budget: Budget, more: MoreLimits) -> list[Bar]:
    """Draw what is used of the limits; `more`: those optional ones that can be read."""
    used: dict[str, tuple[Figure | None, Figure]] = {
        "daily_limit": (budget.spent_today, budget.daily_limit),
        "weekly_limit": (budget.spent_this_week, budget.weekly_limit),
    }
    if more is not NO_MORE:
        used |= {field: (figure, getattr(more, field)) for field, figure in budget.used().items() if field in COUNTED}
    return [_draw(*_NAMES[field], *used[field]) for field in _NAMES if field in used]


def _draw(title: str, name: str, figure: Figure | None, limit: Figure) -> Bar:
    if figure is None:
        return Bar(title, _NOT_COUNTED, "")
    left = max(limit - figure, 0 if isinstance(figure, int) else Decimal(0))
    return Bar(title, usage_bar(figure, limit, name), f"{show_figure(left)} left")

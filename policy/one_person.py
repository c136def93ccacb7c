"""What one person may let agents spend where four eyes are on: in each asset, no more than FOUR_EYES_ABOVE in all.

The threshold is not for each change: ten small agents, or one limit raised ten times, would then be ten changes of one
person. All that single persons have let in counts together, whoever they are, by the highest limit of each agent. It
counts for as long as it is in force, and for a week after: until then it may have been spent.
"""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal

from django.conf import settings
from django.db.models import Max, OuterRef, Q, Subquery
from django.db.models.functions import Greatest

from foundation.commands import AUTHOR
from foundation.database import FOUR_EYES_LOCK
from foundation.groups import lock_above, outside_groups, read_of
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from policy.limits import Limits, lets_more_pass
from policy.models import PolicyRevision
from staff.audit import is_confirmed

_LONGEST_WINDOW = timedelta(days=7)


def takes_two(agent_id: str, asset: Asset, new: Limits, *, old: Limits | None = None) -> bool:
    """Tell whether limits need a second person; `old` None: the agent is new."""
    return any_takes_two({agent_id: (old, new)}, asset)


def any_takes_two(changes: Mapping[str, tuple[Limits | None, Limits]], asset: Asset) -> bool:
    """Tell whether limits that several agents get at once need a second person: by agent, the old and the new ones."""
    more = {agent: new for agent, (old, new) in changes.items() if old is None or lets_more_pass(old, new)}
    if not (settings.FOUR_EYES and more):
        return False
    let_in = _let_in_by_one(asset)
    for agent, new in more.items():
        let_in[agent] = max(let_in.get(agent, Decimal(0)), reach(new))
    threshold: Decimal = settings.FOUR_EYES_ABOVE.get(asset, Decimal(0))
    return sum(let_in.values()) > threshold


def lock_thresholds() -> None:
    """Let nobody else judge by the thresholds until this transaction ends: two changes at once must not both fit."""
    if settings.FOUR_EYES:
        lock_above(FOUR_EYES_LOCK)


def is_by_one(by: str) -> bool:
    """Tell whether one member of staff lets something pass; what a command lets pass does not count here."""
    return settings.FOUR_EYES and by != AUTHOR and not is_confirmed()


def reach(limits: Limits) -> Decimal:
    """Give the highest of the limits. One that binds nothing today would bind nothing once the others are raised."""
    return max(limits.max_per_payment, limits.daily_limit, limits.weekly_limit)


def _let_in_by_one(asset: Asset) -> dict[str, Decimal]:
    """Find what single persons let in, by agent: the highest limit that was in force within a week."""
    following = PolicyRevision.objects.filter(agent=OuterRef("agent"), number__gt=OuterRef("number"))
    ended_at = Subquery(following.order_by("number").values("created_at")[:1])
    rows = PolicyRevision.objects.filter(is_by_one=True, agent__asset=asset).annotate(ended_at=ended_at)
    recent = rows.filter(Q(ended_at=None) | Q(ended_at__gt=utc_now() - _LONGEST_WINDOW))
    highest = Max(Greatest("max_per_payment", "daily_limit", "weekly_limit"))
    found = recent.order_by().values("agent").annotate(highest=highest).values_list("agent", "highest")
    with outside_groups():  # what single persons let in counts together, whatever agents it is for
        return dict(read_of(None, found.all))

"""The limits of a policy: three that every policy has, the payees that it allows, and optional ones. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Protocol

from policy.more_limits import NO_MORE, PARTS, MoreLimits
from policy.payee_limits import lets_payees_more
from policy.tags import Tags


class LimitsInForce(Protocol):
    """The limits of a policy revision, in units of the agent's asset, wherever they were read."""

    @property
    def max_per_payment(self) -> Decimal: ...

    @property
    def daily_limit(self) -> Decimal: ...

    @property
    def weekly_limit(self) -> Decimal: ...

    @property
    def allowed_services(self) -> Collection[str] | None: ...

    @property
    def more(self) -> MoreLimits: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a policy revision, in units of the agent's asset; a limit of 0 approves nothing.

    `allowed_services` None means every approved service, or with `more.allowed_tags` those that have one of these tags;
    a list of services and tags allow what is in either.
    """

    max_per_payment: Decimal
    daily_limit: Decimal
    weekly_limit: Decimal
    allowed_services: Sequence[str] | None = None
    more: MoreLimits = NO_MORE


def under(parent: str | None, limits: Limits) -> Limits:
    """Return the same limits of an agent with this parent."""
    return replace(limits, more=replace(limits.more, parent=parent))


def lets_more_pass(old: LimitsInForce, new: LimitsInForce) -> bool:
    """Tell whether a policy lets something pass that another does not: a higher limit, or a service that is new."""
    if (
        new.max_per_payment > old.max_per_payment
        or new.daily_limit > old.daily_limit
        or new.weekly_limit > old.weekly_limit
    ):
        return True
    return _allows_more_payees(old, new) or _more_lets_more_pass(old.more, new.more)


def is_allowed(payee: str, tags: Collection[str], services: Collection[str] | None, allowed: Tags | None) -> bool:
    """Tell whether a policy allows a payee with these tags, by its list of services and its allowed tags."""
    if allowed is None:
        return services is None or payee in services
    return any(tag in allowed for tag in tags) or (services is not None and payee in services)


def _allows_more_payees(old: LimitsInForce, new: LimitsInForce) -> bool:
    """Tell whether some payee may be allowed that was not; which payees have a tag may change at any time."""
    if old.allowed_services is None and old.more.allowed_tags is None:
        return False
    if new.allowed_services is None and new.more.allowed_tags is None:
        return True
    return not (
        set(new.allowed_services or ()) <= set(old.allowed_services or ())
        and set(new.more.allowed_tags or ()) <= set(old.more.allowed_tags or ())
    )


def _more_lets_more_pass(old: MoreLimits, new: MoreLimits) -> bool:
    if old == new:
        return False
    is_more = any(part.kind.lets_more(getattr(old, part.field), getattr(new, part.field)) for part in PARTS)
    return is_more or lets_payees_more(old.of_payees, old.payee_limits, new.of_payees, new.payee_limits)

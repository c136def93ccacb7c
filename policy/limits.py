"""The limits of a policy: three that every policy has, the payees that it allows, and optional ones. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from policy.more_limits import NO_MORE, PARTS, MoreLimits
from policy.payee_limits import lets_payees_more


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

    `allowed_services` None means every approved service.
    """

    max_per_payment: Decimal
    daily_limit: Decimal
    weekly_limit: Decimal
    allowed_services: Sequence[str] | None = None
    more: MoreLimits = NO_MORE


def lets_more_pass(old: LimitsInForce, new: LimitsInForce) -> bool:
    """Tell whether a policy lets something pass that another does not: a higher limit, or a service that is new."""
    if (
        new.max_per_payment > old.max_per_payment
        or new.daily_limit > old.daily_limit
        or new.weekly_limit > old.weekly_limit
    ):
        return True
    if old.allowed_services is not None and (
        new.allowed_services is None or not set(new.allowed_services) <= set(old.allowed_services)
    ):
        return True
    return _more_lets_more_pass(old.more, new.more)


def _more_lets_more_pass(old: MoreLimits, new: MoreLimits) -> bool:
    if old == new:
        return False
    is_more = any(part.kind.lets_more(getattr(old, part.field), getattr(new, part.field)) for part in PARTS)
    return is_more or lets_payees_more(old.of_payees, old.payee_limits, new.of_payees, new.payee_limits)

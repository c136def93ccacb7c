"""All that a decision of the policy depends on. Amounts are in units of the allowance's asset."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from chains.port import Obstacle
from policy.limits import LimitsInForce
from policy.more_limits import NO_MORE, MoreLimits


@dataclass(frozen=True, slots=True)
class PayeeFacts:
    """What is known of a registered service at the moment of decision.

    `wants_it_elsewhere`: it asks for this payment at another recipient, or on another chain, than was approved (x402).
    `obstacle`: why this payment cannot be made to it until somebody changes something; None: nothing that is known.
    `approved_at`: since when it is approved as it is; None: it is not, or nobody asks.
    `tags`: the groups that it is in.
    """

    id: str
    is_approved: bool
    asset: str
    wants_it_elsewhere: bool = False
    obstacle: Obstacle | None = None
    approved_at: datetime | None = None
    tags: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Counted:
    """What optional limits compare: what was spent, and how many payments were made, before this one.

    Of a limit that there is not, it is 0. `payee_…`: to the payee of this payment.
    """

    spent_this_hour: Decimal = Decimal(0)
    spent_this_month: Decimal = Decimal(0)
    spent_ever: Decimal = Decimal(0)
    payments_this_hour: int = 0
    payments_today: int = 0
    payee_spent_today: Decimal = Decimal(0)
    payee_spent_this_week: Decimal = Decimal(0)
    payee_payments: int = 0


NOTHING_COUNTED = Counted()


@dataclass(frozen=True, slots=True)
class Facts:
    """A payment, and what is known of its agent and its payee.

    `allowed_services` None means every approved service, or with `more.allowed_tags` those with one of these tags;
    `payee` None: unknown; `minimum` None: any amount will do. `more` are the optional limits, `counted` what they
    compare; `at` is the moment of the decision. `levels`: the same of all agents above, the parent first.
    """

    amount: Decimal
    asset: str
    agent_is_active: bool
    agent_asset: str
    balance: Decimal
    max_per_payment: Decimal
    daily_limit: Decimal
    weekly_limit: Decimal
    spent_today: Decimal
    spent_this_week: Decimal
    allowed_services: frozenset[str] | None
    payee: PayeeFacts | None
    minimum: Decimal | None
    at: datetime
    more: MoreLimits = NO_MORE
    counted: Counted = NOTHING_COUNTED
    levels: "tuple[Level, ...]" = ()


@dataclass(frozen=True, slots=True)
class Level:
    """An agent above the one that pays: what its rules judge of the payment, and by which policy revision."""

    agent: str
    policy_revision: int
    facts: Facts


def make_facts(
    *,
    amount: Decimal,
    asset: str,
    agent_is_active: bool,
    agent_asset: str,
    balance: Decimal,
    limits: LimitsInForce,
    spent_today: Decimal,
    spent_this_week: Decimal,
    counted: Counted,
    payee: PayeeFacts | None,
    minimum: Decimal | None,
    at: datetime,
) -> Facts:
    """Make the facts of a payment: one that is decided now, or one of the past that other limits judge again.

    Nothing has a default: whoever asks the rules says all that they are asked about.
    """
    allowed = limits.allowed_services
    return Facts(
        amount=amount,
        asset=asset,
        agent_is_active=agent_is_active,
        agent_asset=agent_asset,
        balance=balance,
        max_per_payment=limits.max_per_payment,
        daily_limit=limits.daily_limit,
        weekly_limit=limits.weekly_limit,
        spent_today=spent_today,
        spent_this_week=spent_this_week,
        allowed_services=None if allowed is None else frozenset(allowed),
        payee=payee,
        minimum=minimum,
        at=at,
        more=limits.more,
        counted=counted,
    )


_PAYEE = PayeeFacts(id="example-market-data", is_approved=True, asset="USDC")
UNAPPROVED_PAYEE = replace(_PAYEE, is_approved=False)
UNPAYABLE_PAYEES = (
    replace(_PAYEE, obstacle=Obstacle.of_exclusion("USDC is out of service on base: the operator has left it out.")),
    replace(_PAYEE, obstacle=Obstacle("A payment to it must be at least 0.75 USDC.", least=Decimal("0.75"))),
)
# A payment that passes every rule. The examples of a rule say what is different where it refuses.
EXAMPLE_FACTS = Facts(
    amount=Decimal("0.50"),
    asset="USDC",
    agent_is_active=True,
    agent_asset="USDC",
    balance=Decimal("959.75"),
    max_per_payment=Decimal(10),
    daily_limit=Decimal(50),
    weekly_limit=Decimal(200),
    spent_today=Decimal(12),
    spent_this_week=Decimal("40.25"),
    allowed_services=None,
    payee=_PAYEE,
    minimum=Decimal("0.01"),
    at=datetime(2026, 5, 14, 18, 42, 11, 123000, UTC),
)

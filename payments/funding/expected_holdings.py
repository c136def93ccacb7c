"""Read from the ledger what an escrow should hold, and whether the ledger agrees with itself."""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import Min, OuterRef, Q, QuerySet, Subquery, Sum

from foundation.groups import are_of_groups, found_above, read_of, snapshot
from foundation.kernel.assets import Asset
from foundation.kernel.money import EXACT
from ledger.models import BalanceMovement, MovementKind
from payments.lifecycle import PaymentStatus
from payments.models import Deposit, DepositState, Outflow, Payment, Withdrawal, final_legs_of
from policy.models import Agent

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class SettledBefore:
    """The sum of the payments settled before `until`, which need not be added up again. None: no payment was."""

    until: datetime | None = None
    total: Decimal = _ZERO


@dataclass(frozen=True, slots=True)
class ExpectedHoldings:
    """The holdings that an escrow should have as of a block, in units of the asset.

    `booked` is all of it, of which `in_flight` is being paid. `paid_before`: no payment that was settled before this
    moment is in a later block; None: no payment at all is in a later block.
    """

    booked: Decimal
    in_flight: Decimal
    paid_before: datetime | None


@dataclass(frozen=True, slots=True)
class Imbalance:
    """An asset whose balances do not sum up to what came in, less what was spent (`explained`)."""

    asset: str
    balances: Decimal
    explained: Decimal


@dataclass(frozen=True, slots=True)
class _OfGroup:
    """What a group of agents has to do with an escrow: sums in units of the asset, and as of `ExpectedHoldings`."""

    by_hand: Decimal | None
    settled: Decimal | None
    settled_later: Decimal | None
    paid_before: datetime | None
    in_flight: Decimal | None


def books() -> AbstractContextManager[None]:
    """Read in this block the books of all agents, and what came in and left, as of one moment. Raises as `snapshot`."""
    return snapshot(Deposit, Withdrawal, Outflow)


def read_expected_holdings(
    chain: str, asset: Asset, block_number: int, *, escrow: str, settled_before: SettledBefore
) -> ExpectedHoldings:
    """Read what the configured escrow should hold of an asset as of a final block that was searched.

    Events on the chain count up to this block: deposits, settled payments, withdrawals, outflows (the tokens are gone,
    whatever the reason turns out to be), and transfers from this escrow to the next one. Movements by hand have no
    block and count at once; those whose tokens move count with the tokens. `booked` is consistent by itself, because
    nothing in these blocks changes any more. Call within `books` if `in_flight` matters, too.
    """
    deposits = find_deposits().filter(chain=chain, asset=asset, block_number__lte=block_number)
    taken = Withdrawal.objects.filter(chain=chain, asset=asset, landed_block__lte=block_number)
    taken = taken.filter(Q(agent__isnull=False) | Q(escrow=escrow))
    left = Outflow.objects.filter(chain=chain, asset=asset, block_number__lte=block_number)
    by_hand = find_standing_movements().filter(_attributed_to(chain, asset), agent__asset=asset)
    settled = find_settled(chain, asset, settled_before.until)
    found = read_of(None, lambda: [_read_group(chain, asset, block_number, by_hand, settled)])
    later = sum_of(*(one.settled_later for one in found))
    gone = sum_of(settled_before.total, *(one.settled for one in found), -later, _total(taken), _total(left))
    return ExpectedHoldings(
        booked=sum_of(_total(deposits), *(one.by_hand for one in found), -gone),
        in_flight=sum_of(*(one.in_flight for one in found), later),
        paid_before=min((one.paid_before for one in found if one.paid_before is not None), default=None),
    )


def _read_group(
    chain: str, asset: Asset, block_number: int, by_hand: QuerySet[BalanceMovement], settled: QuerySet[Payment]
) -> _OfGroup:
    is_later = Q(final_block__gt=block_number)
    recent = settled.aggregate(
        settled=Sum("amount"),
        settled_later=Sum("amount", filter=is_later),
        paid_before=Min("settled_at", filter=is_later),
    )
    in_flight = Payment.objects.filter(chain=chain, asset=asset, status=PaymentStatus.APPROVED)
    return _OfGroup(by_hand=_total(by_hand.all()), in_flight=_total(in_flight), **recent)


def find_imbalances() -> list[Imbalance]:
    """Compare the agents' balances with what came in and what was spent. Call within `books`.

    What was spent and not given back is settled or in flight. Returns the assets that do not fit.
    """
    returns = BalanceMovement.objects.filter(kind=MovementKind.RETURN)
    balances = _by_asset(Agent.objects.all(), "asset", "balance")
    spent = _by_asset(Agent.objects.all(), "asset", "spent_total")
    given_back = _by_asset(returns, "agent__asset")
    by_hand = _by_asset(_movements_by_hand(), "agent__asset")
    deposits = _by_asset(Deposit.objects.filter(state=DepositState.CREDITED), "asset")
    explained = {
        asset: sum_of(by_hand[asset], deposits[asset], -spent[asset], given_back[asset]) for asset in sorted(balances)
    }
    return [Imbalance(asset, balances[asset], sum_) for asset, sum_ in explained.items() if balances[asset] != sum_]


def chains_with(asset: str) -> list[str]:
    """Name the served chains that have an asset."""
    return [caip2 for caip2, served in settings.CHAINS.items() if asset in served.tokens]


def find_deposits() -> QuerySet[Deposit]:
    """Find the deposits, without transfers between our own escrows, which look like deposits that are set aside."""
    transfers = Withdrawal.objects.filter(agent=None).order_by()
    return Deposit.objects.exclude(state=DepositState.ASIDE, named_agent__in=transfers.values("reference")).order_by()


def find_settled(chain: str, asset: str, since: datetime | None) -> QuerySet[Payment]:
    """Find the payments that were settled since a moment (None: ever), annotated with their block, `final_block`."""
    settled = Payment.objects.filter(chain=chain, asset=asset, status=PaymentStatus.SETTLED).order_by()
    found = settled.annotate(final_block=Subquery(final_legs_of(OuterRef("pk")).values("settlement__block_number")[:1]))
    return found if since is None else found.filter(settled_at__gte=since)


def find_standing_movements() -> QuerySet[BalanceMovement]:
    """Find the movements by hand that no movement of tokens stands for: no withdrawal that counts, and no outflow."""
    left = Withdrawal.objects.filter(cancelled_at=None)
    return _movements_by_hand().exclude(pk__in=_movements_of(Outflow.objects.all())).exclude(pk__in=_movements_of(left))


def sum_of(*amounts: Decimal | None) -> Decimal:
    """Add amounts up exactly; None counts as zero."""
    total = _ZERO
    for amount in amounts:
        total = EXACT.add(total, amount or _ZERO)
    return total


def _movements_by_hand() -> QuerySet[BalanceMovement]:
    """Find the movements that neither a payment nor a deposit explains."""
    kinds = (MovementKind.FUNDING, MovementKind.WITHDRAWAL, MovementKind.ADJUSTMENT)
    return (
        BalanceMovement.objects.filter(kind__in=kinds).exclude(pk__in=_movements_of(Deposit.objects.all())).order_by()
    )


def _movements_of(rows: QuerySet[Any]) -> Iterable[Any]:
    return found_above(rows.exclude(movement=None).order_by().values_list("movement_id", flat=True))


def _attributed_to(chain: str, asset: Asset) -> Q:
    """Select the movements on a chain. Early movements name no chain if only one had the asset."""
    named = Q(chain=chain)
    return named | Q(chain=None) if chains_with(asset) == [chain] else named


def _by_asset(rows: QuerySet[Any], asset: str, field: str = "amount") -> dict[str, Decimal]:
    """Sum rows up by their asset, those of all groups together."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    totals = rows.order_by().values_list(asset).annotate(total=Sum(field))
    for name, total in read_of(None, totals.all) if are_of_groups(rows) else totals:
        sums[name] = sum_of(sums[name], total)
    return sums


def _total(rows: QuerySet[Any]) -> Decimal | None:
    total: Decimal | None = rows.aggregate(total=Sum("amount"))["total"]
    return total

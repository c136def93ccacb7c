"""What the ledger says that the escrows should hold, and whether the ledger agrees with itself."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import Min, OuterRef, Q, QuerySet, Subquery, Sum

from allowance.kernel.assets import Asset
from allowance.kernel.money import EXACT
from ledger.models import BalanceMovement, MovementKind
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Deposit, DepositState, Payment, Settlement
from policy.models import Agent

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Carried:
    """The payments settled before `until` sum up to `total`, and need not be summed again. None: none was."""

    until: datetime | None = None
    total: Decimal = _ZERO


@dataclass(frozen=True, slots=True)
class Books:
    """What an escrow should hold as of a block, in units of the asset: between `booked - in_flight` and `booked`.

    `paid_before`: of the payments settled before this moment, none is in a later block; None: no payment at all is.
    """

    booked: Decimal
    in_flight: Decimal
    paid_before: datetime | None


@dataclass(frozen=True, slots=True)
class Imbalance:
    """An asset of which the agents have another sum than what came in, less what they spent."""

    asset: str
    balances: Decimal
    explained: Decimal


def read_books(chain: str, asset: Asset, block_number: int, *, carried: Carried, added_before: datetime) -> Books:
    """Read what an escrow should hold of an asset as of a final block. Call within `snapshot`.

    What was added by hand after `added_before` does not count yet: the tokens may have come in after the block. What
    was taken by hand counts at once. Settled payments in later blocks are in flight: the block has them unpaid.
    """
    deposits = Deposit.objects.filter(chain=chain, asset=asset, block_number__lte=block_number)
    by_hand = _movements_by_hand().filter(_attributed_to(chain, asset), agent__asset=asset)
    counting = by_hand.filter(Q(amount__lt=0) | Q(created_at__lt=added_before))
    of_asset = Payment.objects.filter(chain=chain, asset=asset)
    settled = of_asset.filter(status=PaymentStatus.SETTLED)
    if carried.until is not None:
        settled = settled.filter(settled_at__gte=carried.until)
    final = Settlement.objects.filter(payment=OuterRef("pk"), is_void=False, state=SettlementState.FINAL).order_by()
    is_later = Q(block_number__gt=block_number)
    recent = settled.annotate(block_number=Subquery(final.values("block_number"))).aggregate(
        all=Sum("amount"), later=Sum("amount", filter=is_later), paid_before=Min("settled_at", filter=is_later)
    )
    later = recent["later"] or _ZERO
    paid = _sum(carried.total, recent["all"], -later)
    return Books(
        booked=_sum(_total(deposits), _total(counting), -paid),
        in_flight=_sum(_total(of_asset.filter(status=PaymentStatus.APPROVED)), later),
        paid_before=recent["paid_before"],
    )


def find_unattributed() -> dict[str, Decimal]:
    """Sum up, by asset, what was moved by hand without saying on which chain, if that does not go without saying."""
    movements = _movements_by_hand().filter(chain=None).values_list("agent__asset").annotate(total=Sum("amount"))
    found = movements.order_by("agent__asset")
    return {asset: total for asset, total in found if total and len(_chains_with(asset)) != 1}


def find_imbalances() -> list[Imbalance]:
    """Compare the agents' balances with what came in and what was spent. Call within `snapshot`.

    What was spent and not given back is settled or in flight; so with what is kept aside, the balances and what is in
    flight are all that is booked on the chains.
    """
    agents = Agent.objects.order_by("asset").values_list("asset").annotate(Sum("balance"), Sum("spent_total"))
    given_back = _by_asset(BalanceMovement.objects.filter(kind=MovementKind.RETURN), "agent__asset")
    by_hand = _by_asset(_movements_by_hand(), "agent__asset")
    deposits = _by_asset(Deposit.objects.filter(state=DepositState.CREDITED), "asset")
    found = []
    for asset, balances, spent in agents:
        came_in = _sum(by_hand.get(asset), deposits.get(asset))
        explained = _sum(came_in, -spent, given_back.get(asset))
        if balances != explained:
            found.append(Imbalance(asset, balances, explained))
    return found


def _movements_by_hand() -> QuerySet[BalanceMovement]:
    """Find the movements that neither a payment nor a deposit explains."""
    kinds = (MovementKind.FUNDING, MovementKind.WITHDRAWAL, MovementKind.ADJUSTMENT)
    return BalanceMovement.objects.filter(kind__in=kinds, deposit__isnull=True).order_by()


def _attributed_to(chain: str, asset: Asset) -> Q:
    named = Q(chain=chain)
    return named | Q(chain=None) if _chains_with(asset) == [chain] else named


def _chains_with(asset: str) -> list[str]:
    return [caip2 for caip2, served in settings.CHAINS.items() if asset in served.tokens]


def _by_asset(rows: QuerySet[Any], asset: str) -> dict[str, Decimal]:
    return dict(rows.order_by().values_list(asset).annotate(total=Sum("amount")))


def _total(rows: QuerySet[Any]) -> Decimal | None:
    total: Decimal | None = rows.aggregate(total=Sum("amount"))["total"]
    return total


def _sum(*amounts: Decimal | None) -> Decimal:
    total = _ZERO
    for amount in amounts:
        total = EXACT.add(total, amount or _ZERO)
    return total

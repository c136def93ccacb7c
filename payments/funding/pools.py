"""Pools: the sum of an asset that agents were promised, beside the sum that all escrows together hold of it.

A payment is made out of the escrow on its payee's chain, so what counts is the sum over all chains. Promises beyond it
could only be paid with other customers' money. Source: docs/architecture.md.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet, Sum, Value

from foundation.groups import are_of_groups, read_of
from foundation.kernel.money import EXACT, format_amount
from payments.funding.expected_holdings import chains_with, find_deposits, find_settled, find_standing_movements, sum_of
from payments.lifecycle import PaymentStatus
from payments.models import DepositState, Outflow, Payment, Reconciliation, Withdrawal
from payments.queries import find_newest_reconciliations
from policy.models import Agent

# Rows, and the field to sum up.
_Amounts = tuple[QuerySet[Any], str]
# The block of an escrow that was never compared: everything that is known of it came later.
_NEVER = -1


@dataclass(frozen=True, slots=True)
class Pool:
    """The promised and the held sum of an asset, as of the blocks of the last comparisons.

    `not_compared`: chains (CAIP-2) with the asset whose escrow was not compared yet. What is known to be there counts
    on neither side, so that a chain that was just added raises no alarm.
    """

    asset: str
    promised: Decimal
    held: Decimal
    not_compared: Sequence[str] = ()

    @property
    def surplus(self) -> Decimal:
        """The part of the holdings that nobody was promised; below zero, promises exceed holdings by that much."""
        return EXACT.subtract(self.held, self.promised)

    @property
    def is_overdrawn(self) -> bool:
        return self.surplus < 0

    def __str__(self) -> str:
        promised, held, over = (format_amount(one) for one in (self.promised, self.held, -self.surplus))
        return f"{promised} {self.asset} are promised and the escrows hold {held}: {over} too much."


@dataclass(frozen=True, slots=True)
class _Compared:
    """The block of an escrow's last comparison; no payment that was settled before `since` is in a later block."""

    chain: str
    block_number: int
    since: datetime | None


def read_pools(assets: Iterable[str] | None = None) -> list[Pool]:
    """Read the pools of some assets, or of all served ones. An asset that was compared on no chain has none yet."""
    served = {asset for one in settings.CHAINS.values() for asset in one.tokens}
    pools = [read_pool(asset) for asset in sorted(served if assets is None else served.intersection(assets))]
    return [pool for pool in pools if pool is not None]


def read_pool(asset: str) -> Pool | None:
    """Read the pool of an asset; None: it was compared on no chain yet.

    It reads all promises as of one moment: the balances, the payments in flight, the deposits that are set
    aside, and the withdrawals whose tokens have not left. The sum is then carried back to the blocks of the
    comparisons: what came in later is deducted, what left later is added.
    """
    chains = chains_with(asset)
    newest = find_newest_reconciliations().filter(asset=asset, chain__in=chains)
    rows = {row.chain: row for row in newest if row.is_of(settings.CHAINS[row.chain].escrow)}
    if not rows:
        return None
    never = [chain for chain in chains if chain not in rows]
    compared = [_last_comparison(chain, rows.get(chain)) for chain in chains]
    later_in, later_out = _came_in_later(asset, compared, never), _left_later(asset, compared)
    amounts = _sum_at_once([*_promises(asset), *later_out, *later_in])
    split = len(amounts) - len(later_in)
    promised = EXACT.subtract(sum_of(*amounts[:split]), sum_of(*amounts[split:]))
    return Pool(asset, promised, sum_of(*(row.holds for row in rows.values())), tuple(never))


def _last_comparison(chain: str, row: Reconciliation | None) -> _Compared:
    return _Compared(chain, _NEVER, None) if row is None else _Compared(chain, row.block_number, row.settled_until)


def _promises(asset: str) -> list[_Amounts]:
    open_withdrawals = Withdrawal.objects.filter(landed_block=None, cancelled_at=None, agent__isnull=False)
    return [
        (Agent.objects.filter(asset=asset), "balance"),
        (Payment.objects.filter(asset=asset, status=PaymentStatus.APPROVED), "amount"),
        (find_deposits().filter(asset=asset, state=DepositState.ASIDE), "amount"),
        (open_withdrawals.filter(asset=asset), "amount"),
    ]


def _left_later(asset: str, compared: Sequence[_Compared]) -> list[_Amounts]:
    """Find what left the escrows after they were compared. An outflow is gone, whatever its reason turns out to be."""
    withdrawals = Withdrawal.objects.filter(_any(compared, lambda one: Q(landed_block__gt=one.block_number)))
    outflows = Outflow.objects.filter(_any(compared, lambda one: Q(block_number__gt=one.block_number)))
    paid = [find_settled(one.chain, asset, one.since).filter(Q(final_block__gt=one.block_number)) for one in compared]
    found = [withdrawals.filter(asset=asset, agent__isnull=False), outflows.filter(asset=asset), *paid]
    return [(rows, "amount") for rows in found]


def _came_in_later(asset: str, compared: Sequence[_Compared], never: Sequence[str]) -> list[_Amounts]:
    """Find what the escrows did not hold when they were compared: it came later, or was transferred on by then."""
    deposits = find_deposits().filter(_any(compared, lambda one: Q(block_number__gt=one.block_number)))
    by_hand = find_standing_movements().filter(agent__asset=asset, chain__in=never)
    escrows = {one.chain: settings.CHAINS[one.chain].escrow for one in compared}
    is_transferred = _any(compared, lambda one: Q(escrow=escrows[one.chain], landed_block__lte=one.block_number))
    transfers = Withdrawal.objects.filter(is_transferred, asset=asset, agent=None)
    return [(rows, "amount") for rows in (deposits.filter(asset=asset), by_hand, transfers)]


def _any(compared: Sequence[_Compared], condition: Callable[[_Compared], Q]) -> Q:
    chosen = Q(pk__in=())
    for one in compared:
        chosen |= Q(chain=one.chain) & condition(one)
    return chosen


def _sum_at_once(amounts: Sequence[_Amounts]) -> list[Decimal]:
    """Sum these up, in one statement where one server has them all, so that they are of one moment; returns the sums.

    On several servers they are of the moment of `books`.
    """
    of_all: list[QuerySet[Any, Any]] = []
    of_groups: list[QuerySet[Any, Any]] = []
    for number, (rows, field) in enumerate(amounts):
        total = rows.order_by().annotate(number=Value(number)).values("number").annotate(total=Sum(field))
        (of_groups if are_of_groups(rows) else of_all).append(total.values_list("number", "total"))
    found = [*of_all[0].union(*of_all[1:], all=True)]
    if of_groups:
        found += read_of(None, lambda: of_groups[0].union(*of_groups[1:], all=True))
    sums = [Decimal(0)] * len(amounts)
    for number, total in found:
        sums[number] = sum_of(sums[number], total)
    return sums

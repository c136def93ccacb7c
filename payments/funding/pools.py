"""The pools: what is promised of an asset, beside what all escrows together hold of it.

An agent is paid out of the escrow of whichever chain its payee is on, so what counts is the sum over the chains. What
is promised beyond that could only be paid with other customers' money.
Source: docs/architecture.md, "What must always be true", 7.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet, Sum, Value

from allowance.kernel.money import EXACT, format_amount
from payments.funding.expected_holdings import chains_with, find_deposits, find_settled, find_standing_movements, sum_of
from payments.lifecycle import PaymentStatus
from payments.models import DepositState, Outflow, Payment, Reconciliation, Withdrawal
from payments.queries import find_newest_reconciliations
from policy.models import Agent

# Rows, and the field of theirs to sum up.
_Amounts = tuple[QuerySet[Any], str]
# The block of an escrow that was never looked at: everything that is known of it came later.
_NEVER = -1


@dataclass(frozen=True, slots=True)
class Pool:
    """What is promised of an asset and what the escrows hold of it, as of the blocks compared last.

    `not_compared`: chains (CAIP-2) with the asset whose escrow was not looked at yet; what is known to be there counts
    on neither side, so that a chain that was just added raises no alarm.
    """

    asset: str
    promised: Decimal
    held: Decimal
    not_compared: Sequence[str] = ()

    @property
    def surplus(self) -> Decimal:
        """What belongs to nobody; below zero, so much is promised and not there."""
        return EXACT.subtract(self.held, self.promised)

    @property
    def is_overdrawn(self) -> bool:
        return self.surplus < 0

    def __str__(self) -> str:
        promised, held, over = (format_amount(one) for one in (self.promised, self.held, -self.surplus))
        return f"{promised} {self.asset} are promised and the escrows hold {held}: {over} too much."


@dataclass(frozen=True, slots=True)
class _Seen:
    """As of which block an escrow was looked at last; payments settled before `since` are not in later ones."""

    chain: str
    block_number: int
    since: datetime | None


def read_pools(assets: Iterable[str] | None = None) -> list[Pool]:
    """Read the pools of some assets, or of all that are served; without those that no chain was compared for."""
    served = {asset for one in settings.CHAINS.values() for asset in one.tokens}
    pools = [read_pool(asset) for asset in sorted(served if assets is None else served.intersection(assets))]
    return [pool for pool in pools if pool is not None]


def read_pool(asset: str) -> Pool | None:
    """Read the pool of an asset; None: no chain that has it was compared yet.

    What is promised is read in one statement, so that it is of one moment: the balances as they literally stand, what
    is being paid, deposits that are kept aside, withdrawals whose tokens have not left. Then it is taken back to the
    blocks that the escrows were looked at in: without what came in later, with what left later.
    """
    chains = chains_with(asset)
    newest = find_newest_reconciliations().filter(asset=asset, chain__in=chains)
    rows = {row.chain: row for row in newest if row.is_of(settings.CHAINS[row.chain].escrow)}
    if not rows:
        return None
    never = [chain for chain in chains if chain not in rows]
    seen = [_seen(chain, rows.get(chain)) for chain in chains]
    later_in, later_out = _came_in_later(asset, seen, never), _left_later(asset, seen)
    amounts = _sum_at_once([*_promises(asset), *later_out, *later_in])
    split = len(amounts) - len(later_in)
    promised = EXACT.subtract(sum_of(*amounts[:split]), sum_of(*amounts[split:]))
    return Pool(asset, promised, sum_of(*(row.holds for row in rows.values())), tuple(never))


def _seen(chain: str, row: Reconciliation | None) -> _Seen:
    return _Seen(chain, _NEVER, None) if row is None else _Seen(chain, row.block_number, row.settled_until)


def _promises(asset: str) -> list[_Amounts]:
    open_withdrawals = Withdrawal.objects.filter(landed_block=None, cancelled_at=None, agent__isnull=False)
    return [
        (Agent.objects.filter(asset=asset), "balance"),
        (Payment.objects.filter(asset=asset, status=PaymentStatus.APPROVED), "amount"),
        (find_deposits().filter(asset=asset, state=DepositState.ASIDE), "amount"),
        (open_withdrawals.filter(asset=asset), "amount"),
    ]


def _left_later(asset: str, seen: Sequence[_Seen]) -> list[_Amounts]:
    """Find what the escrows still had when they were looked at. An outflow is gone, whatever it turns out to be."""
    withdrawals = Withdrawal.objects.filter(_any(seen, lambda one: Q(landed_block__gt=one.block_number)))
    outflows = Outflow.objects.filter(_any(seen, lambda one: Q(block_number__gt=one.block_number)))
    paid = [find_settled(one.chain, asset, one.since).filter(Q(final_block__gt=one.block_number)) for one in seen]
    found = [withdrawals.filter(asset=asset, agent__isnull=False), outflows.filter(asset=asset), *paid]
    return [(rows, "amount") for rows in found]


def _came_in_later(asset: str, seen: Sequence[_Seen], never: Sequence[str]) -> list[_Amounts]:
    """Find what the escrows did not have yet when they were looked at, or had handed on to the next escrow."""
    deposits = find_deposits().filter(_any(seen, lambda one: Q(block_number__gt=one.block_number)))
    by_hand = find_standing_movements().filter(agent__asset=asset, chain__in=never)
    escrows = {one.chain: settings.CHAINS[one.chain].escrow for one in seen}
    is_handed_on = _any(seen, lambda one: Q(escrow=escrows[one.chain], landed_block__lte=one.block_number))
    moves = Withdrawal.objects.filter(is_handed_on, asset=asset, agent=None)
    return [(rows, "amount") for rows in (deposits.filter(asset=asset), by_hand, moves)]


def _any(seen: Sequence[_Seen], condition: Callable[[_Seen], Q]) -> Q:
    chosen = Q(pk__in=())
    for one in seen:
        chosen |= Q(chain=one.chain) & condition(one)
    return chosen


def _sum_at_once(amounts: Sequence[_Amounts]) -> list[Decimal]:
    """Sum these up in one statement; returns the sums in this order."""
    totals = [
        rows.order_by().annotate(number=Value(number)).values("number").annotate(total=Sum(field))
        for number, (rows, field) in enumerate(amounts)
    ]
    listed = [one.values_list("number", "total") for one in totals]
    found = dict(listed[0].union(*listed[1:], all=True))
    return [found.get(number) or Decimal(0) for number in range(len(amounts))]

"""Credits that are no deposit: only out of what an escrow holds and nobody was promised.

Two credits at once could both count on the same surplus, so those of an asset are booked one after the other.
Source: docs/architecture.md, "What must always be true", 7. Locks are taken in the order asset, agent.
"""

from datetime import timedelta
from decimal import Decimal

from django.conf import settings
from django.db import transaction
from django.db.models import Sum

from allowance.database import CREDIT_LOCK, lock_name
from allowance.kernel.assets import Asset
from allowance.kernel.errors import OperationRefused
from allowance.kernel.money import format_amount
from allowance.kernel.times import utc_now
from ledger import operations
from payments.funding.expected_holdings import SettledBefore, chains_with, read_expected_holdings, sum_of
from payments.funding.pools import read_pool
from payments.models import Outflow, Reconciliation
from payments.queries import find_newest_reconciliations
from policy.models import Agent

# What an escrow held earlier than this, nothing is credited on.
FRESH_FOR = timedelta(minutes=10)


def fund_agent(agent_id: str, *, amount: Decimal, by: str, chain: str, reason: str = "") -> Agent:
    """Credit an agent's allowance out of the surplus of a chain (CAIP-2).

    Raises:
        OperationRefused: no such agent, not a positive amount of its asset, or the surplus does not cover it, or was
            not looked at lately.
    """
    with transaction.atomic():
        _take_from_surplus(agent_id, chain, amount)
        return operations.fund_agent(agent_id, amount=amount, by=by, reason=reason, chain=chain)


def adjust_balance(
    agent_id: str, *, amount: Decimal, by: str, reason: str, chain: str, after: int | None = None
) -> Agent:
    """Correct an agent's balance by a signed amount, upward out of the surplus of a chain (CAIP-2).

    What is taken is surplus of the chain from then on. `after` as in `ledger.operations.withdraw_funds`.

    Raises:
        OperationRefused: as `ledger.operations.adjust_balance` does, the chain does not have the asset, or, upward, as
            `fund_agent` does.
    """
    with transaction.atomic():
        _take_from_surplus(agent_id, chain, amount)
        return operations.adjust_balance(agent_id, amount=amount, by=by, reason=reason, chain=chain, after=after)


def find_surplus(chain: str, asset: str) -> Decimal | None:
    """Find what the escrow of a chain held when it was looked at last, and nobody is promised; None: not looked lately.

    What has left since, and what left for nobody knows whom, is not there to be promised either.
    """
    row = find_newest_reconciliations().filter(chain=chain, asset=asset).first()
    if row is None or row.created_at < utc_now() - FRESH_FOR or not row.is_of(settings.CHAINS[chain].escrow):
        return None
    return _surplus_of(row)


def find_largest_surplus(asset: str) -> str:
    """Name the served chain (CAIP-2) with the largest surplus of an asset; the only one that has it, in any case.

    Raises:
        OperationRefused: no served chain has the asset, or none of several was looked at lately.
    """
    chains = chains_with(asset)
    if len(chains) == 1:
        return chains[0]
    found = {chain: surplus for chain in chains if (surplus := find_surplus(chain, asset)) is not None}
    if not found:
        raise OperationRefused(f"It is not known what the escrows hold of {asset}: run `manage.py reconcile` first.")
    return max(found, key=lambda chain: found[chain])


def check_chain(chain: str, asset: str) -> None:
    """Check that money of an asset can be on a chain (CAIP-2).

    Raises:
        OperationRefused: the chain is not served, or does not have the asset.
    """
    if chain not in chains_with(asset):
        raise OperationRefused(f"No escrow of {asset} is served on {_name(chain)}.")


def _take_from_surplus(agent_id: str, chain: str, amount: Decimal) -> None:
    """See to it that a credit is covered until this transaction ends; what is no credit needs no cover."""
    agent = Agent.objects.filter(pk=agent_id).first()
    if agent is None:
        raise OperationRefused(f"There is no agent {agent_id}.")
    check_chain(chain, agent.asset)
    if not amount.is_finite() or amount <= 0:
        return
    lock_name(CREDIT_LOCK, agent.asset)
    surplus, pool = find_surplus(chain, agent.asset), read_pool(agent.asset)
    if surplus is None or pool is None:
        raise OperationRefused(
            f"What the escrow on {_name(chain)} holds was not compared with the ledger in the last "
            f"{FRESH_FOR.seconds // 60} minutes: run `manage.py reconcile --chain {_name(chain)}` first."
        )
    if amount > surplus:
        raise OperationRefused(
            f"{format_amount(amount)} {agent.asset} are not covered: of what the escrow on {_name(chain)} holds, "
            f"{format_amount(max(Decimal(0), surplus))} belong to nobody."
        )
    if amount > pool.surplus:
        raise OperationRefused(
            f"{format_amount(amount)} {agent.asset} are not covered: over all chains "
            f"{format_amount(pool.promised)} are promised, and the escrows hold {format_amount(pool.held)}."
        )


def _surplus_of(row: Reconciliation) -> Decimal:
    asset, carried = Asset(row.asset), SettledBefore(row.settled_until, row.settled_total)
    escrow = settings.CHAINS[row.chain].escrow
    books = read_expected_holdings(row.chain, asset, row.block_number, escrow=escrow, carried=carried)
    nobodys = Outflow.objects.filter(chain=row.chain, asset=asset, movement=None)
    lost: Decimal | None = nobodys.aggregate(total=Sum("amount"))["total"]
    return sum_of(row.holds, -books.booked, -(lost or Decimal(0)))


def _name(chain: str) -> str:
    served = settings.CHAINS.get(chain)
    return chain if served is None else str(served.chain.alias)

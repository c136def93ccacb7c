"""Credit agents by hand, and only out of the surplus: what an escrow holds and nobody was promised.

Two credits at the same time could both rely on the same surplus, so the credits of an asset are booked one after the
other. Locks are taken in the order asset, agent. Source: docs/architecture.md.
"""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal

from django.conf import settings
from django.db import transaction
from django.db.models import Sum

from foundation.database import CREDIT_LOCK
from foundation.groups import for_agent, lock_above, outside_groups
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import EXACT, format_amount
from foundation.kernel.times import utc_now
from ledger import operations
from payments.funding.expected_holdings import SettledBefore, books, chains_with, read_expected_holdings, sum_of
from payments.funding.pools import read_pool
from payments.models import Outflow, Reconciliation
from payments.queries import find_newest_reconciliations
from policy.models import Agent
from staff.audit import record

# A comparison of an escrow with the ledger that is older than this covers no credit.
FRESH_FOR = timedelta(minutes=10)


@for_agent
def fund_agent(agent_id: str, *, amount: Decimal, by: str, chain: str, reason: str = "") -> Agent:
    """Credit an agent's allowance out of the surplus of a chain (CAIP-2).

    Raises:
        OperationRefused: no such agent, not a positive amount of its asset, or the surplus does not cover it, or was
            not determined lately.
    """
    (agent,) = fund_agents({agent_id: amount}, asset=_asset_of(agent_id), by=by, chain=chain, reason=reason)
    return agent


def fund_agents(amounts: Mapping[str, Decimal], *, asset: str, by: str, chain: str, reason: str = "") -> list[Agent]:
    """Credit the allowances of agents in one asset, by their ids, if the surplus of a chain covers the sum.

    Raises:
        OperationRefused: as `fund_agent` does.
    """
    agents = []
    with transaction.atomic():
        require_surplus(asset, chain, sum_of(*amounts.values()))
        for agent_id, amount in amounts.items():
            agent = operations.fund_agent(agent_id, amount=amount, by=by, reason=reason, chain=chain)
            _record("agent.funded", agent, amount, chain, by=by, reason=reason)
            agents.append(agent)
    return agents


@for_agent
def adjust_balance(
    agent_id: str, *, amount: Decimal, by: str, reason: str, chain: str, after: int | None = None
) -> Agent:
    """Correct an agent's balance by a signed amount, upward out of the surplus of a chain (CAIP-2).

    What is deducted becomes surplus of the chain. `after` as in `ledger.operations.withdraw_funds`.

    Raises:
        OperationRefused: as `ledger.operations.adjust_balance` does, the chain does not have the asset, or, upward, as
            `fund_agent` does.
    """
    with transaction.atomic():
        require_surplus(_asset_of(agent_id), chain, amount)
        agent = operations.adjust_balance(agent_id, amount=amount, by=by, reason=reason, chain=chain, after=after)
        _record("agent.adjusted", agent, amount, chain, by=by, reason=reason)
    return agent


def find_surplus(chain: str, asset: str) -> Decimal | None:
    """Find the surplus of a chain's escrow as of the last comparison; None: there was none lately.

    What has left the escrow since, and what left it for an unknown reason, is deducted.
    """
    row = find_newest_reconciliations().filter(chain=chain, asset=asset).first()
    if row is None or row.created_at < utc_now() - FRESH_FOR or not row.is_of(settings.CHAINS[chain].escrow):
        return None
    return _surplus_of(row)


def find_largest_surplus(asset: str) -> str:
    """Name the served chain (CAIP-2) with the largest surplus of an asset. If only one chain has the asset, name that.

    Raises:
        OperationRefused: no served chain has the asset, or none of several was compared with the ledger lately.
    """
    chains = chains_with(asset)
    if len(chains) == 1:
        return chains[0]
    found = {chain: surplus for chain in chains if (surplus := find_surplus(chain, asset)) is not None}
    if not found:
        raise OperationRefused(f"The holdings of {asset} were not read lately: run `manage.py reconcile` first.")
    return max(found, key=lambda chain: found[chain])


def check_chain(chain: str, asset: str) -> None:
    """Check that an asset is served on a chain (CAIP-2).

    Raises:
        OperationRefused: the chain is not served, or does not have the asset.
    """
    if chain not in chains_with(asset):
        raise OperationRefused(f"No escrow of {asset} is served on {_name(chain)}.")


def require_surplus(asset: str, chain: str, amount: Decimal, *, besides: Decimal = Decimal(0)) -> None:
    """Check that the surplus covers a credit, and keep it so for this transaction. A deduction needs no cover.

    `besides`: what else this transaction will credit of the asset, out of other chains.

    Raises:
        OperationRefused: as `fund_agent` does.
    """
    check_chain(chain, asset)
    if not amount.is_finite() or amount <= 0:
        return
    lock_above(CREDIT_LOCK, asset)
    with outside_groups(), books():
        surplus, pool = find_surplus(chain, asset), read_pool(asset)
    if surplus is None or pool is None:
        raise OperationRefused(
            f"The escrow on {_name(chain)} was not compared with the ledger in the last "
            f"{FRESH_FOR.seconds // 60} minutes: run `manage.py reconcile --chain {_name(chain)}` first."
        )
    if amount > surplus:
        raise OperationRefused(
            f"{format_amount(amount)} {asset} are not covered: the surplus of the escrow on {_name(chain)} is "
            f"{format_amount(max(Decimal(0), surplus))}."
        )
    if EXACT.add(amount, besides) > pool.surplus:
        raise OperationRefused(
            f"{format_amount(amount)} {asset} are not covered: over all chains "
            f"{format_amount(pool.promised)} are promised, and the escrows hold {format_amount(pool.held)}."
        )


def _asset_of(agent_id: str) -> str:
    agent = Agent.objects.filter(pk=agent_id).first()
    if agent is None:
        raise OperationRefused(f"There is no agent {agent_id}.")
    return str(agent.asset)


def _surplus_of(row: Reconciliation) -> Decimal:
    asset, settled_before = Asset(row.asset), SettledBefore(row.settled_until, row.settled_total)
    escrow = settings.CHAINS[row.chain].escrow
    expected = read_expected_holdings(row.chain, asset, row.block_number, escrow=escrow, settled_before=settled_before)
    unattributed = Outflow.objects.filter(chain=row.chain, asset=asset, movement=None)
    lost: Decimal | None = unattributed.aggregate(total=Sum("amount"))["total"]
    return sum_of(row.holds, -expected.booked, -(lost or Decimal(0)))


def _record(action: str, agent: Agent, amount: Decimal, chain: str, *, by: str, reason: str) -> None:
    record(
        action,
        subject_type="agent",
        subject=agent.id,
        by=by,
        reason=reason,
        before={"balance": EXACT.subtract(agent.balance, amount)},
        after={"balance": agent.balance, "amount": amount, "asset": agent.asset, "chain": chain},
    )


def _name(chain: str) -> str:
    served = settings.CHAINS.get(chain)
    return chain if served is None else str(served.chain.alias)

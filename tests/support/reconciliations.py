"""A stage for reconciliation: an escrow whose holdings the test decides, beside the ledger of a fake chain."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Sum

from chains.catalogue import ServedChain, find_chain
from foundation.kernel.assets import Asset
from foundation.kernel.money import EXACT
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement, MovementKind
from ledger.operations import adjust_balance, fund_agent
from payments.funding.expected_holdings import find_imbalances
from payments.funding.pools import read_pool
from payments.models import ChainState, DepositCursor, Outflow, Payment, Reconciliation
from payments.reconciling.reconciliation import reconcile
from policy.models import Agent
from services.served_chains import served_chains
from tests.support.factories import make_agent, new_name
from tests.support.local_ids import LOCALNET, SOLANA_LOCALNET
from tests.support.scenes import Scene, transaction_of


class EscrowScene(Scene):
    """An agent that 1000 USDC were booked for by hand. The escrow holds them."""

    def __init__(self, holds: str = "1000", *, has_nonces: bool = True) -> None:
        super().__init__(has_nonces=has_nonces, balance="0")
        self.hold(holds)
        DepositCursor.objects.create(
            chain=self.chain.name, block_number=self.chain.finality.block_number, moved_at=utc_now()
        )
        fund_agent(self.agent.id, amount=Decimal(1000), by="test", chain=self.chain.name)

    def hold(self, amount: str) -> None:
        """Let the escrow hold so much USDC."""
        self.chain.holdings[Asset.USDC] = Decimal(amount)

    def next_block(self) -> None:
        """Let there be one more final block, that was searched for deposits."""
        self.chain.finalise(self.chain.finality.block_number + 1)
        self.search()

    def search(self) -> None:
        """Let all final blocks be searched for deposits."""
        cursors = DepositCursor.objects.filter(chain=self.chain.name)
        cursors.update(block_number=self.chain.finality.block_number)

    def reconcile(self, **options: Any) -> Reconciliation:
        (row,) = reconcile(self.chain.name, self.chain, **options)
        return row

    def lose(self, amount: str, **changes: Any) -> Outflow:
        """Let something have left the escrow that the ledger does not know; the holdings are the test's affair."""
        fields = {"tx": new_name("tx"), "log_index": 0, "block_number": self.block, "why": "It is no payment of ours."}
        fields |= {"asset": Asset.USDC, "amount": Decimal(amount), "recipient": "a stranger", "found_at": utc_now()}
        row: Outflow = Outflow.objects.create(chain=self.chain.name, **{**fields, **changes})
        return row

    def settle(self, amount: str = "1.00", ago: timedelta = timedelta()) -> Payment:
        """Let a payment be settled in a block of its own, so long ago; the escrow's holdings are the test's affair."""
        payment = self.pay_and_send(amount)
        self.chain.include(transaction_of(payment))
        assert self.confirm() == 1
        self.search()
        Payment.objects.filter(pk=payment.pk).update(settled_at=utc_now() - ago)
        return Payment.objects.get(pk=payment.pk)

    @property
    def block(self) -> int:
        """The newest final block."""
        number: int = self.chain.finality.block_number
        return number

    @property
    def state(self) -> ChainState:
        return ChainState.objects.get(pk=self.chain.name)


def make_comparison(chain: str, *, drift: str = "0", asset: Asset = Asset.USDC, **fields: Any) -> Reconciliation:
    """Write a comparison down, as if it had been made now."""
    holds = Decimal(100)
    amounts = {"holds": holds, "booked": holds - Decimal(drift), "in_flight": Decimal(0), "drift": Decimal(drift)}
    times = {"settled_until": utc_now(), "settled_total": Decimal(0), "created_at": utc_now()}
    row: Reconciliation = Reconciliation.objects.create(
        chain=chain, asset=asset, **{"block_number": 100, **amounts, **times, **fields}
    )
    return row


def served(*names: str, asset: Asset = Asset.USDC, escrow: str = "") -> dict[str, ServedChain]:
    """Make the configuration of chains that have an asset."""
    facts = find_chain("base")
    assert facts is not None
    return {name: ServedChain(facts, (), escrow, {asset: ""}) for name in names}


def level(settings: Any, *names: str, surplus: str = "0", asset: Asset = Asset.USDC) -> Reconciliation:
    """Serve these chains and one more, whose escrow holds what all other promises of the asset need, and a surplus.

    Other tests leave promises behind. Returns the comparison of that one more.
    """
    settings.CHAINS = served(*names, new_name("rest"), asset=asset)
    row = make_comparison(list(settings.CHAINS)[-1], asset=asset, holds=Decimal(0))
    pool = read_pool(asset)
    assert pool is not None
    row.holds = EXACT.subtract(Decimal(surplus), pool.surplus)
    row.save()
    return row


def fit_books(*chains: str) -> None:
    """Let the ledger say just what the escrows of embedded chains hold, whatever other tests left. Roll it back."""
    assets = set()
    for chain in chains:
        adapter = served_chains()[chain]
        searched = {"block_number": adapter.follower.find_finality().block_number, "moved_at": utc_now()}
        DepositCursor.objects.update_or_create(chain=chain, defaults=searched)
        for row in reconcile(chain, adapter):
            assets.add(Asset(row.asset))
            _move(make_agent(asset=Asset(row.asset), balance="0"), row.drift, chain)
    for asset in assets:
        agent = make_agent(asset=asset, balance="0")
        balances = Agent.objects.filter(asset=asset)
        before, pool = balances.aggregate(total=Sum("balance"))["total"], read_pool(asset)
        assert pool is not None
        balances.update(balance=0)
        Agent.objects.filter(pk=agent.pk).update(balance=before + pool.surplus)
        for one in find_imbalances():
            if one.asset == asset:
                _move(agent, one.balances - one.explained, "another")
    ChainState.objects.filter(chain__in=chains).update(stopped_reason="", stopped_at=None)


def make_agent_with_surplus() -> Agent:
    """Make an agent of 1000 USDC; the embedded escrows hold what is promised, and beyond that 20 USDC on the EVM chain
    and 5 on Solana.
    """
    agent = make_agent(balance="1000")
    fit_books(LOCALNET, SOLANA_LOCALNET)
    Agent.objects.filter(pk=agent.pk).update(balance=1025)
    spare = Agent.objects.filter(asset=Asset.USDC).order_by("-balance")[0]
    Agent.objects.filter(pk=spare.pk).update(balance=spare.balance - 1025)
    adjust_balance(agent.id, amount=Decimal(-20), by="test", reason="A test", chain=LOCALNET)
    adjust_balance(agent.id, amount=Decimal(-5), by="test", reason="A test", chain=SOLANA_LOCALNET)
    return Agent.objects.get(pk=agent.pk)


def _move(agent: Agent, amount: Decimal, chain: str) -> None:
    """Write a movement down that does not change the balance."""
    if amount:
        BalanceMovement.objects.create(
            agent=agent, kind=MovementKind.ADJUSTMENT, amount=amount, balance_after=0, chain=chain, author="test",
            reason="A test", created_at=utc_now(),
        )  # fmt: skip


def numbers(row: Reconciliation) -> tuple[Any, ...]:
    return row.booked, row.in_flight, row.drift

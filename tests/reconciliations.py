"""A stage for reconciliation: an escrow whose holdings the test decides, beside the ledger of a fake chain."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

from allowance.kernel.assets import Asset
from allowance.kernel.times import utc_now
from ledger.operations import fund_agent
from payments.models import ChainState, DepositCursor, Payment, Reconciliation
from payments.reconciliation import SETTLING, reconcile
from tests.scenes import HOUR, Scene, transaction_of


class EscrowScene(Scene):
    """An agent that 1000 USDC were booked for by hand, long enough ago to count. The escrow holds them."""

    def __init__(self, holds: str = "1000", *, has_nonces: bool = True) -> None:
        super().__init__(has_nonces=has_nonces, balance="0")
        self.chain.reach(utc_now() + SETTLING + HOUR)
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

    def settle(self, amount: str = "1.00", ago: timedelta = timedelta()) -> Payment:
        """Let a payment be settled in a block of its own, so long ago; the escrow's holdings are the test's affair."""
        payment = self.pay_and_send(amount)
        self.chain.include(transaction_of(payment))
        assert self.confirm() == 1
        self.search()
        Payment.objects.filter(pk=payment.pk).update(settled_at=utc_now() - ago)
        return Payment.objects.get(pk=payment.pk)

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

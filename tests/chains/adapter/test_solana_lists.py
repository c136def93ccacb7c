"""Several payments in one transaction, on Solana: all are paid or none, and each has its part of the cost."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from chains.port import Fate, NonceFate, Order, OutflowEvent, PaymentFate, PaymentPlan, TransactionPlan
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from tests.chains.adapter.deployment import Sent
from tests.chains.adapter.solana_deployment import SolanaDeployment
from tests.support.deposits import none_of_ours

SOL, USDC, PYUSD = Asset.SOL, Asset.USDC, Asset.PYUSD
PAID, UNPAID = PaymentFate.PAID, PaymentFate.UNPAID


def order(solana: SolanaDeployment, asset: Asset = USDC, amount: str = "1.5", **changes: Any) -> Order:
    return replace(Order(solana.new_escrow_id(), asset, Decimal(amount), solana.new_address()), **changes)


def pay_list(solana: SolanaDeployment, *orders: Order) -> Sent:
    """Sign a list; it is not sent."""
    adapter = solana.adapter()
    seen = adapter.payee_accounts.observe_payees([(one.recipient, one.asset) for one in orders], {}, lambda _: ())
    (submitter,) = solana.relayers()
    payments = [PaymentPlan(one, seen[one.recipient]) for one in orders]
    plan = TransactionPlan(payments, submitter, adapter.observer.observe(), solana.signer)
    return Sent(adapter.preparer.prepare(plan, utc_now()), submitter, orders[0], orders[1:])


def prove(solana: SolanaDeployment, sent: Sent) -> Fate:
    adapter = solana.adapter()
    return adapter.prover.find_fates([sent.sought], adapter.follower.find_finality())[sent.tx]


def outflows_in(solana: SolanaDeployment, block_number: int) -> Sequence[OutflowEvent]:
    return solana.adapter().escrow.search(block_number, block_number, none_of_ours).outflows


def received(solana: SolanaDeployment, orders: Sequence[Order]) -> list[Decimal]:
    return [Decimal(solana.balance_of(one.recipient, one.asset)).scaleb(-one.asset.decimals) for one in orders]


def test_each_is_paid_told_by_the_history_and_bears_its_part_of_the_cost(solana):
    orders = [order(solana), order(solana, PYUSD, "0.25"), order(solana, amount="2")]
    sent = pay_list(solana, *orders)
    had = solana.gas_money(sent.submitter.relayer_address)

    landed = solana.land(sent)[sent.tx]

    assert (landed.is_final, landed.failure, landed.skipped) == (True, None, {})
    assert received(solana, orders) == [one.amount for one in orders]
    assert prove(solana, sent) == Fate({one.escrow_id: PAID for one in orders}, NonceFate.USED)
    told = outflows_in(solana, landed.block_number)
    assert {(one.escrow_id, one.asset, one.amount) for one in told} >= {
        (one.escrow_id, one.asset, one.amount) for one in orders
    }
    adapter = solana.adapter()
    (cost,) = adapter.prover.find_costs([replace(sent.sought, orders=[])], adapter.follower.find_finality()).values()
    assert sum(cost.of_orders.values()) == cost.total == had - solana.gas_money(sent.submitter.relayer_address)
    assert cost.total <= sent.signed.most_cost
    shares = [cost.of_orders[one.escrow_id] for one in orders]
    # The accounts of the newer program are longer.
    assert max(shares) == shares[1]
    assert abs(shares[0] - shares[2]) <= Decimal("1e-9")


def test_a_list_of_which_one_account_is_frozen_fails_as_a_whole_and_says_why(solana):
    bad = order(solana, recipient=solana.new_frozen_address(USDC))
    orders = [order(solana), bad, order(solana, SOL, "0.01")]
    held = {asset: solana.held(asset) for asset in solana.assets}
    sent = pay_list(solana, *orders)

    landed = solana.land(sent)[sent.tx]

    assert landed.is_final
    assert landed.failure
    reason = solana.adapter().follower.find_reason(sent.sought, landed.block_number)
    assert reason.startswith("Failed: custom program error 0x11 (account is frozen) in instruction ")
    assert prove(solana, sent) == Fate({one.escrow_id: UNPAID for one in orders}, NonceFate.USED)
    assert received(solana, orders) == [0, 0, 0]
    assert {asset: solana.held(asset) for asset in solana.assets} == held
    assert not [one for one in outflows_in(solana, landed.block_number) if one.tx == sent.tx]
    adapter = solana.adapter()
    (cost,) = adapter.prover.find_costs([sent.sought], adapter.follower.find_finality()).values()
    # No account was made, so nobody has its rent.
    assert cost.total == Decimal("0.00001")
    assert sorted(cost.of_orders.values()) == [
        Decimal("0.000003333"),
        *[Decimal("0.000003333")],
        Decimal("0.000003334"),
    ]


def test_an_altered_list_moves_nothing(solana):
    orders = [order(solana), order(solana, amount="2")]
    sent = pay_list(solana, *orders)
    altered = sent.raw.replace((2_000_000).to_bytes(8, "little"), (2_000_001).to_bytes(8, "little"))
    assert altered != sent.raw

    assert solana.adapter().broadcaster.send([altered]) != [None]
    solana.land(sent)

    assert received(solana, orders) == [one.amount for one in orders]

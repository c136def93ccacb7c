"""Several payments in one transaction, on EVM chains: each is paid or skipped, and has its part of the cost."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from chains.port import (
    ChainUnavailable,
    Fate,
    GasCost,
    Inclusion,
    NonceFate,
    Order,
    PaymentFate,
    PaymentPlan,
    Submitter,
    TransactionPlan,
)
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from tests.chains.adapter.deployment import Sent
from tests.chains.adapter.evm_deployment import EvmDeployment

MOST = 64
PAID, UNPAID = PaymentFate.PAID, PaymentFate.UNPAID


def order(evm: EvmDeployment, amount: str = "1.50", asset: Asset = Asset.USDC, **changes: Any) -> Order:
    made = Order(evm.new_escrow_id(), asset, Decimal(amount), evm.new_address())
    return replace(made, **changes)


def plan(evm: EvmDeployment, submitter: Submitter, orders: Sequence[Order], **state: Any) -> TransactionPlan:
    seen = evm.adapter().observer.observe() | state
    return TransactionPlan([PaymentPlan(one) for one in orders], submitter, seen, evm.signer)


def pay_list(evm: EvmDeployment, submitter: Submitter, *orders: Order, **options: Any) -> Sent:
    """Sign a list; it is not sent."""
    now = options.pop("now", None) or utc_now()
    signed = evm.adapter().preparer.prepare(plan(evm, submitter, orders, **options), now)
    return Sent(signed, submitter, orders[0], orders[1:])


def prove(evm: EvmDeployment, sent: Sent) -> Fate:
    adapter = evm.adapter()
    return adapter.prover.find_fates([sent.sought], adapter.follower.find_finality())[sent.tx]


def cost_of(evm: EvmDeployment, sent: Sent, landed: Inclusion) -> GasCost:
    adapter = evm.adapter()
    seen = replace(sent.sought, block_number=landed.block_number, block_hash=landed.block_hash)
    return adapter.prover.find_costs([seen], adapter.follower.find_finality())[sent.tx]


def received(evm: EvmDeployment, one: Order) -> int:
    return evm.balance_of(one.recipient, one.asset)


# --- Paying -----------------------------------------------------------------------------------------------------------
def test_of_a_list_of_which_one_was_paid_before_the_others_are_paid_and_it_says_which_was_skipped_and_why(evm):
    first, second = evm.relayers(2)
    before = evm.pay(first)
    evm.land(before)
    # The id alone counts: this one would be another payment.
    again = order(evm, "7", escrow_id=before.order.escrow_id)
    one, other = order(evm, "2.25"), order(evm, "0.5", Asset.EURC)
    held = {asset: evm.held(asset) for asset in evm.assets}
    had = evm.gas_money(second.relayer_address)
    sent = pay_list(evm, second, one, again, other)
    assert set(prove(evm, sent).payments.values()) == {PAID, UNPAID}

    landed = evm.land(sent)[sent.tx]

    assert (landed.is_final, landed.failure) == (True, None)
    assert landed.skipped == {again.escrow_id: "escrow: already settled"}
    assert [received(evm, two) for two in (one, again, other)] == [2_250_000, 0, 500_000]
    assert {asset: held[asset] - evm.held(asset) for asset in evm.assets} == {
        Asset.USDC: 2_250_000,
        Asset.EURC: 500_000,
    }
    assert evm.number("eth_getTransactionCount", second.relayer_address, "latest") == 1
    # The escrow counts the one that was skipped as paid, too: by the transaction before.
    assert prove(evm, sent) == Fate({two.escrow_id: PAID for two in (one, again, other)}, NonceFate.USED)
    cost = cost_of(evm, sent, landed)
    assert cost.total == had - evm.gas_money(second.relayer_address) <= sent.signed.most_cost
    assert sum(cost.of_orders.values()) == cost.total
    assert list(cost.of_orders) == [one.escrow_id, again.escrow_id, other.escrow_id]
    assert 0 < cost.of_orders[again.escrow_id] < min(cost.of_orders[two.escrow_id] for two in (one, other))


def test_what_cannot_be_paid_is_skipped_for_its_own_reason_and_can_be_paid_later(evm):
    submitter, later = evm.turns(2)
    good, alike = order(evm), order(evm)
    alike = replace(alike, recipient=good.recipient)
    too_much = order(evm, "500000000")
    refused = order(evm, recipient=evm.escrow)
    capped = order(evm, "3", Asset.EURC)
    sent = pay_list(evm, submitter, too_much, good, refused, capped, alike)
    with evm.cap(Asset.EURC, 0):
        landed = evm.land(sent)[sent.tx]

    assert landed.failure is None
    assert landed.skipped == {
        too_much.escrow_id: "escrow: token refused",
        refused.escrow_id: "escrow: recipient refused",
        capped.escrow_id: "escrow: over daily cap",
    }
    assert received(evm, good) == 3_000_000
    unpaid = dict.fromkeys([one.escrow_id for one in (too_much, refused, capped)], UNPAID)
    assert prove(evm, sent) == Fate({good.escrow_id: PAID, alike.escrow_id: PAID, **unpaid}, NonceFate.USED)

    evm.land(evm.pay(later, order=capped))

    assert received(evm, capped) == 3_000_000
    # By another transaction: this one has not paid it.
    adapter = evm.adapter()
    found = adapter.follower.find_inclusions([sent.sought], adapter.follower.find_finality()).inclusions[sent.tx]
    assert found == landed
    assert prove(evm, sent).payments[capped.escrow_id] is PAID


def test_a_list_of_which_nothing_can_be_paid_has_not_failed_and_pays_nothing(evm):
    (submitter,) = evm.relayers()
    orders = [order(evm, "500000000"), order(evm, recipient=evm.escrow)]
    held = evm.held()
    sent = pay_list(evm, submitter, *orders)

    landed = evm.land(sent)[sent.tx]

    assert landed.failure is None
    assert landed.skipped.keys() == {one.escrow_id for one in orders}
    assert evm.held() == held
    assert set(prove(evm, sent).payments.values()) == {UNPAID}


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"now": timedelta(hours=-2)}, "escrow: expired"), ({}, "EnforcedPause")],
    ids=["expired", "paused"],
)
def test_a_list_that_the_contract_refuses_fails_as_a_whole(evm, options, reason):
    (submitter,) = evm.relayers()
    orders = [order(evm), order(evm, "1", Asset.EURC)]
    sent = pay_list(evm, submitter, *orders, **{name: utc_now() + value for name, value in options.items()})
    if options:
        landed = evm.land(sent)[sent.tx]
    else:
        with evm.paused():
            landed = evm.land(sent)[sent.tx]

    assert (landed.is_final, landed.failure, landed.skipped) == (True, "Reverted.", {})
    assert evm.adapter().follower.find_reason(sent.sought, landed.block_number) == f"Reverted: {reason}"
    assert prove(evm, sent) == Fate({one.escrow_id: UNPAID for one in orders}, NonceFate.USED)
    assert [received(evm, one) for one in orders] == [0, 0]
    cost = cost_of(evm, sent, landed)
    assert (cost.total > 0, cost.of_orders) == (True, {})


def test_an_altered_list_moves_nothing(evm):
    (submitter,) = evm.relayers()
    one, other = order(evm), order(evm, "2")
    sent = pay_list(evm, submitter, one, other)
    stranger = bytes.fromhex(evm.new_address()[2:])
    altered = sent.raw.replace(bytes.fromhex(other.recipient[2:]), stranger)
    assert altered != sent.raw

    # It is a transaction of somebody else, who has nothing.
    assert evm.adapter().broadcaster.send([altered]) != [None]
    evm.land(sent)

    assert [received(evm, two) for two in (one, other)] == [1_500_000, 2_000_000]
    assert evm.balance_of("0x" + stranger.hex()) == 0


def test_a_long_list_fits_into_one_transaction_and_its_gas_suffices(evm):
    (submitter,) = evm.relayers()
    orders = [order(evm, "0.01", evm.assets[number % 2]) for number in range(MOST // 2)]
    had = evm.gas_money(submitter.relayer_address)
    sent = pay_list(evm, submitter, *orders)
    assert evm.adapter().preparer.rehearse(plan(evm, submitter, orders)) > 0

    landed = evm.land(sent)[sent.tx]

    assert (landed.failure, landed.skipped) == (None, {})
    assert {received(evm, one) for one in orders} == {10_000}
    cost = cost_of(evm, sent, landed)
    assert sum(cost.of_orders.values()) == cost.total == had - evm.gas_money(submitter.relayer_address)
    assert cost.of_orders.keys() == {one.escrow_id for one in orders}


def test_of_a_list_and_its_replacement_exactly_one_lands(evm):
    adapter = evm.adapter()
    (submitter,) = evm.relayers()
    original = pay_list(evm, submitter, order(evm), order(evm, "2"))
    signed = adapter.nonces.raise_fee(original.raw, submitter, adapter.observer.observe())
    replacement = replace(original, signed=signed)

    evm.land(replacement)
    adapter.broadcaster.send([original.raw])
    evm.mine()

    assert [received(evm, one) for one in original.orders] == [1_500_000, 2_000_000]
    both = [original.sought, replacement.sought]
    assert adapter.follower.find_inclusions(both, adapter.follower.find_finality()).inclusions.keys() == {
        replacement.tx
    }
    assert prove(evm, original) == prove(evm, replacement)


def test_of_a_list_what_is_void_is_skipped(evm):
    first, second = evm.turns(2)
    adapter = evm.adapter()
    orders = [order(evm), order(evm, "2")]
    sent = pay_list(evm, second, *orders)
    state = adapter.observer.observe()
    void = Sent(adapter.nonces.prepare_void(orders[0].escrow_id, first, state, evm.signer), first, None)

    landed = evm.land(void, sent)[sent.tx]

    assert landed.skipped == {orders[0].escrow_id: "escrow: already settled"}
    # Void is no answer to whether it is paid: the escrow's history says it.
    assert list(prove(evm, sent).payments.values()) == [PaymentFate.UNKNOWN, PAID]
    assert [received(evm, one) for one in orders] == [0, 2_000_000]


# --- Dividing ---------------------------------------------------------------------------------------------------------
def test_payments_are_divided_by_what_is_configured_and_by_what_the_escrow_makes_at_once(evm):
    (submitter,) = evm.relayers()
    orders = [order(evm) for _ in range(5)]
    planned = plan(evm, submitter, orders)
    assert planned.state["mostTogether"] == MOST

    def divide(most_together: int, **state: Any) -> list[int]:
        changed = replace(planned, state={**planned.state, **state})
        groups = evm.adapter(most_together=most_together).preparer.divide(changed.payments, changed.state)
        assert [one for group in groups for one in group] == planned.payments
        return [len(group) for group in groups]

    assert divide(1) == [1, 1, 1, 1, 1]
    assert divide(2) == [2, 2, 1]
    assert divide(5) == divide(10**6) == [5]
    assert divide(64, mostTogether=3) == [3, 2]
    assert divide(64, mostTogether=1) == divide(1, mostTogether=64) == [1, 1, 1, 1, 1]
    # As an escrow of an earlier release, and a state that was seen by one.
    unseen = {name: value for name, value in planned.state.items() if name != "mostTogether"}
    groups = evm.adapter(most_together=64).preparer.divide(planned.payments, unseen)
    assert [len(group) for group in groups] == [1, 1, 1, 1, 1]


def test_a_list_is_not_signed_if_one_of_its_assets_is_not_served_and_costs_at_most_what_all_would_by_themselves(evm):
    (submitter,) = evm.relayers()
    preparer = evm.adapter().preparer
    orders = [order(evm), order(evm, "1", Asset.EURC)]

    with pytest.raises(ChainUnavailable):
        preparer.prepare(plan(evm, submitter, [*orders, order(evm, "1", Asset.USDT)]), utc_now())
    planned = plan(evm, submitter, orders)
    alone = preparer.rehearse(replace(planned, payments=planned.payments[:1]))
    assert alone < preparer.rehearse(planned) < 2 * alone
    assert preparer.prepare(planned, utc_now()).most_cost == preparer.rehearse(planned)

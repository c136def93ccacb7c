"""Transactions from signing to finality, on every chain: one, again, many, of every asset."""

from dataclasses import replace
from decimal import Decimal

import pytest

from chains.port import ChainUnavailable
from foundation.kernel.assets import Asset
from tests.support.fates import PAID


def test_a_payment_is_seen_nowhere_then_in_a_block_then_final(chain):
    adapter = chain.adapter()
    (submitter,) = chain.relayers()
    payment = chain.pay(submitter, "1.50")
    before = adapter.follower.find_inclusions([payment.sought], adapter.follower.find_finality())
    assert before.inclusions == {}
    assert chain.fates_of(payment) == [chain.untouched]

    assert adapter.broadcaster.send([payment.raw]) == [None]
    final = chain.land(payment)[payment.tx]

    assert (final.is_final, final.failure) == (True, None)
    assert chain.fates_of(payment) == [PAID]
    assert chain.balance_of(payment.order.recipient) == 1_500_000
    # The same as of a block in which it was not final yet.
    finality = adapter.follower.find_finality()
    earlier = replace(finality, block_number=final.block_number - 1)
    seen = adapter.follower.find_inclusions([payment.sought], earlier)
    assert seen.inclusions == {payment.tx: replace(final, is_final=False)}


def test_every_asset_is_paid_to_the_last_unit_out_of_the_escrow(chain):
    payments, had = [], {asset: chain.held(asset) for asset in chain.assets}
    for submitter, asset in zip(chain.turns(len(chain.assets)), chain.assets, strict=True):
        amount = "1." + "1" * asset.decimals
        payments.append(chain.pay(submitter, amount, asset))

    landed = chain.land(*payments)

    assert {one.failure for one in landed.values()} == {None}
    for payment in payments:
        asset = payment.order.asset
        units = int(payment.order.amount.scaleb(asset.decimals))
        assert chain.balance_of(payment.order.recipient, asset) == units == int("1" * (asset.decimals + 1))
        assert chain.held(asset) == had[asset] - units


def test_a_recipient_who_has_been_paid_is_paid_again(chain):
    for asset in chain.assets:
        first, second = chain.turns(2)
        payment = chain.pay(first, "2", asset)
        chain.land(payment)
        order = replace(payment.order, escrow_id=chain.new_escrow_id(), amount=Decimal("0.000001"))

        chain.land(chain.pay(second, order=order))

        assert chain.balance_of(payment.order.recipient, asset) == int(Decimal("2.000001").scaleb(asset.decimals))


def test_two_payments_that_differ_in_nothing_but_their_name_are_two(chain):
    first, second = chain.turns(2)
    state = chain.adapter().observer.observe()
    payment = chain.pay(first, state=state)
    order = replace(payment.order, escrow_id=chain.new_escrow_id())
    again = chain.pay(second, order=order, state=state)

    chain.land(payment, again)

    assert chain.balance_of(payment.order.recipient) == 3_000_000


def test_the_same_bytes_are_taken_again_and_again_and_pay_once(chain):
    adapter = chain.adapter()
    (submitter,) = chain.relayers()
    payment = chain.pay(submitter)

    assert [adapter.broadcaster.send([payment.raw]) for _ in range(3)] == [[None]] * 3
    chain.land(payment)
    assert adapter.broadcaster.send([payment.raw, payment.raw]) == [None, None]
    for _ in range(2):
        chain.mine()

    assert chain.balance_of(payment.order.recipient) == 1_500_000
    assert chain.fates_of(payment) == [PAID]


def test_sixteen_transactions_of_one_relayer_wait_together(chain):
    turns = chain.turns(16)
    assert len({submitter.relayer_address for submitter in turns}) == 1
    payments = [chain.pay(submitter, "0.25") for submitter in turns]

    chain.adapter().broadcaster.send([payment.raw for payment in payments])
    landed = chain.land(*payments)

    assert {one.failure for one in landed.values()} == {None}
    assert chain.fates_of(*payments) == [PAID] * 16


def test_more_transactions_than_a_node_takes_in_one_request_all_settle(chain):
    payments = [chain.pay(submitter, "0.01") for submitter in chain.turns(128)]

    chain.adapter().broadcaster.send([payment.raw for payment in payments])
    landed = chain.land(*payments)

    assert {one.failure for one in landed.values()} == {None}
    assert chain.fates_of(*payments) == [PAID] * 128
    assert {chain.balance_of(payment.order.recipient) for payment in payments} == {10_000}


def test_an_asset_that_is_not_served_is_not_prepared(chain):
    (submitter,) = chain.relayers()

    with pytest.raises(ChainUnavailable):
        chain.pay(submitter, asset=Asset.USDT)


def test_nothing_is_signed_by_what_was_seen_of_another_escrow(chain):
    (submitter,) = chain.relayers()
    state = chain.adapter().observer.observe()

    with pytest.raises(ChainUnavailable):
        chain.pay(submitter, state=state | {"configuration": "another"})

"""Transactions from signing to finality: one, again, out of order, many."""

from dataclasses import replace
from datetime import timedelta

from allowance.kernel.times import utc_now
from payments.chains.base import Proof
from payments.chains.evm.signing import VALIDITY
from tests.payments.adapter.deployment import Sent

FAR = 10**12
PAID = Proof(is_paid=True, is_nonce_used=True, is_nonce_mined=True)
UNTOUCHED = Proof(is_paid=False, is_nonce_used=False, is_nonce_mined=False)


def proofs_of(chain, *sent):
    adapter = chain.adapter()
    proofs = adapter.find_proofs([one.sought for one in sent], adapter.find_finality())
    return [proofs[one.tx] for one in sent]


def next_turn(turn, by=1):
    return replace(turn, nonce=turn.nonce + by)


def test_a_payment_is_seen_nowhere_then_in_a_block_then_final(chain):
    adapter = chain.adapter()
    (turn,) = chain.relayers()
    payment = chain.pay(turn, "1.50")
    before = adapter.find_inclusions([payment.sought], adapter.find_finality())
    assert (before.inclusions, before.mined_nonces) == ({}, {turn.relayer_address: 0})
    assert proofs_of(chain, payment) == [UNTOUCHED]

    assert adapter.send([payment.raw]) == [None]
    final = chain.land(payment)[payment.tx]

    assert (final.is_final, final.failure) == (True, None)
    assert final.block_hash == chain.block(final.block_number)["hash"].lower()
    assert proofs_of(chain, payment) == [PAID]
    assert chain.balance_of(payment.order.recipient) == 1_500_000
    # The same with a chain on which nothing is final yet.
    distant = chain.adapter(depth=FAR)
    seen = distant.find_inclusions([payment.sought], distant.find_finality())
    assert seen.inclusions == {payment.tx: replace(final, is_final=False)}
    assert seen.mined_nonces == {turn.relayer_address: 1}


def test_a_payment_is_refused_by_the_chain_an_hour_after_it_was_signed(chain):
    (turn,) = chain.relayers()
    now = utc_now()

    valid_until = chain.pay(turn, now=now).signed.valid_until

    assert now + VALIDITY - timedelta(seconds=1) < valid_until <= now + VALIDITY


def test_the_same_bytes_are_taken_again_and_again_and_pay_once(chain):
    adapter = chain.adapter()
    (turn,) = chain.relayers()
    payment = chain.pay(turn)

    assert [adapter.send([payment.raw]) for _ in range(3)] == [[None]] * 3
    chain.land(payment)
    assert adapter.send([payment.raw, payment.raw]) == [None, None]
    chain.mine()

    assert chain.balance_of(payment.order.recipient) == 1_500_000
    assert chain.number("eth_getTransactionCount", turn.relayer_address, "latest") == 1


def test_a_later_nonce_lands_once_the_gap_before_it_is_filled(chain):
    adapter = chain.adapter()
    (turn,) = chain.relayers()
    first, second = chain.pay(turn), chain.pay(next_turn(turn))

    # A node may keep it waiting or refuse it for now.
    adapter.send([second.raw])
    chain.mine()
    assert adapter.find_inclusions([second.sought], adapter.find_finality()).inclusions == {}
    landed = chain.land(second, first)

    assert landed[first.tx].block_number <= landed[second.tx].block_number
    assert proofs_of(chain, first, second) == [PAID, PAID]


def test_a_filler_uses_its_nonce_and_moves_nothing(chain):
    adapter = chain.adapter()
    (turn,) = chain.relayers()
    filler = Sent(adapter.prepare_filler(turn, adapter.observe()), turn, None)
    payment = chain.pay(next_turn(turn))
    held = chain.balance_of(chain.escrow)

    landed = chain.land(payment, filler)

    assert filler.signed.valid_until is None
    assert (landed[filler.tx].is_final, landed[filler.tx].failure) == (True, None)
    assert proofs_of(chain, filler, payment) == [Proof(is_paid=False, is_nonce_used=True, is_nonce_mined=True), PAID]
    assert chain.balance_of(chain.escrow) == held - 1_500_000


def test_sixteen_transactions_of_one_relayer_wait_together(chain):
    (turn,) = chain.relayers()
    payments = [chain.pay(next_turn(turn, by=number), "0.25") for number in range(16)]

    refusals = chain.adapter().send([payment.raw for payment in payments])
    landed = chain.land(*payments)

    blocks = [landed[payment.tx].block_number for payment in payments]
    assert refusals == [None] * 16 or not chain.keeps_gaps
    assert blocks == sorted(blocks)
    assert proofs_of(chain, *payments) == [PAID] * 16


def test_more_transactions_than_a_node_takes_in_one_request_all_settle(chain):
    turns = chain.relayers(8)
    payments = [chain.pay(next_turn(turn, by=number), "0.01") for turn in turns for number in range(16)]

    refusals = chain.adapter().send([payment.raw for payment in payments])
    landed = chain.land(*payments)

    # A node works on the calls of one request in any order.
    assert refusals == [None] * 128 or not chain.keeps_gaps
    assert {one.failure for one in landed.values()} == {None}
    assert proofs_of(chain, *payments) == [PAID] * 128
    assert {chain.balance_of(payment.order.recipient) for payment in payments} == {10_000}

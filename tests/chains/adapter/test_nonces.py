"""Nonces, on chains that have them: their order, gaps and what fills them, deadlines by time.

And a transaction with a higher fee in the place of one that is stuck: whichever lands, one does.
"""

from dataclasses import replace
from datetime import timedelta

from chains.evm.adapter import VALIDITY
from chains.port import NonceFate, PaymentFate
from foundation.kernel.times import utc_now
from tests.chains.adapter.deployment import Sent
from tests.chains.adapter.evm_deployment import MOST_IN_LINE
from tests.support.fates import FAILED, PAID


# --- In order ---------------------------------------------------------------------------------------------------------
def test_a_nonce_is_mined_with_the_block_that_has_it(evm):
    adapter = evm.adapter()
    (submitter,) = evm.relayers()
    payment = evm.pay(submitter)
    before = adapter.follower.find_inclusions([payment.sought], adapter.follower.find_finality())

    landed = evm.land(payment)[payment.tx]

    after = adapter.follower.find_inclusions([payment.sought], adapter.follower.find_finality())
    assert [one.mined_nonces for one in (before, after)] == [{submitter.relayer_address: n} for n in (0, 1)]
    assert landed.block_hash == evm.block(landed.block_number)["hash"].lower()
    assert evm.number("eth_getTransactionCount", submitter.relayer_address, "latest") == 1


def test_a_later_nonce_lands_once_the_gap_before_it_is_filled(evm):
    adapter = evm.adapter()
    first, second = map(evm.pay, evm.turns(2))

    # A node may keep it waiting or refuse it for now.
    adapter.broadcaster.send([second.raw])
    evm.mine()
    assert adapter.follower.find_inclusions([second.sought], adapter.follower.find_finality()).inclusions == {}
    landed = evm.land(second, first)

    assert landed[first.tx].block_number <= landed[second.tx].block_number
    assert evm.fates_of(first, second) == [PAID, PAID]


def test_a_full_line_lands_in_its_order(evm):
    adapter = evm.adapter()
    payments = [evm.pay(submitter, "0.25") for submitter in evm.turns(MOST_IN_LINE)]

    refusals = adapter.broadcaster.send([payment.raw for payment in payments])
    landed = evm.land(*payments)

    blocks = [landed[payment.tx].block_number for payment in payments]
    assert refusals == [None] * MOST_IN_LINE or not evm.keeps_gaps
    assert blocks == sorted(blocks)


def test_a_filler_uses_its_nonce_and_moves_nothing(evm):
    adapter = evm.adapter()
    submitter, next_turn = evm.turns(2)
    filler = Sent(adapter.nonces.prepare_filler(submitter, adapter.observer.observe()), submitter, None)
    payment = evm.pay(next_turn)
    held = evm.held()

    landed = evm.land(payment, filler)

    assert filler.signed.valid_until is None
    assert (landed[filler.tx].is_final, landed[filler.tx].failure) == (True, None)
    assert evm.fates_of(filler, payment) == [(None, NonceFate.USED), PAID]
    assert evm.held() == held - 1_500_000


def test_a_filler_in_the_place_of_a_payment_proves_that_it_is_not_paid(evm):
    adapter = evm.adapter()
    (submitter,) = evm.relayers()
    payment = evm.pay(submitter)
    filler = Sent(adapter.nonces.prepare_filler(submitter, adapter.observer.observe()), submitter, None)

    evm.land(filler)
    adapter.broadcaster.send([payment.raw])
    evm.mine()

    sighting = adapter.follower.find_inclusions([payment.sought], adapter.follower.find_finality())
    assert (sighting.inclusions, sighting.mined_nonces) == ({}, {submitter.relayer_address: 1})
    assert evm.fates_of(payment) == [FAILED]
    assert evm.balance_of(payment.order.recipient) == 0


# --- Deadlines --------------------------------------------------------------------------------------------------------
def test_a_payment_is_refused_by_the_chain_a_quarter_of_an_hour_after_it_was_signed(evm):
    (submitter,) = evm.relayers()
    now = utc_now()

    signed = evm.pay(submitter, now=now).signed

    assert now + VALIDITY - timedelta(seconds=1) < signed.valid_until <= now + VALIDITY
    assert signed.valid_until_height is None


# --- Void -------------------------------------------------------------------------------------------------------------
def void(evm, payment, submitter):
    adapter = evm.adapter()
    return Sent(
        adapter.nonces.prepare_void(payment.order.escrow_id, submitter, adapter.observer.observe(), evm.signer),
        submitter,
        None,
    )


def test_what_is_void_can_no_longer_be_paid(evm):
    first, second = evm.turns(2)
    payment = evm.pay(second)
    voiding = void(evm, payment, first)

    landed = evm.land(voiding)
    # Whoever has the signed payment submits it now.
    landed |= evm.land(payment)

    assert [landed[one.tx].failure is None for one in (voiding, payment)] == [True, False]
    assert evm.balance_of(payment.order.recipient) == 0
    # Void is no answer to whether it is paid: the escrow's history says it.
    assert [fate for fate, _ in evm.fates_of(payment)] == [PaymentFate.UNKNOWN]
    number = landed[voiding.tx].block_number
    found = evm.adapter().escrow.search(number, number, lambda _: set())
    assert [(one.tx, one.escrow_id) for one in found.voids] == [(voiding.tx, payment.order.escrow_id)]


def test_what_is_paid_cannot_be_made_void(evm):
    first, second = evm.turns(2)
    payment = evm.pay(first)
    voiding = void(evm, payment, second)

    evm.land(payment)
    landed = evm.land(voiding)

    assert evm.rpc("eth_getTransactionReceipt", voiding.tx)["status"] == "0x0"
    assert evm.fates_of(payment) == [PAID]
    number = landed[voiding.tx].block_number
    assert evm.adapter().escrow.search(number, number, lambda _: set()).voids == []


# --- Higher fees ------------------------------------------------------------------------------------------------------
def raised(evm, sent):
    adapter = evm.adapter()
    signed = adapter.nonces.raise_fee(sent.raw, sent.submitter, adapter.observer.observe())
    return Sent(signed, sent.submitter, sent.order)


def test_of_a_transaction_and_its_replacement_exactly_one_lands(evm):
    adapter = evm.adapter()
    (submitter,) = evm.relayers()
    first, original = evm.pay(submitter), evm.pay(replace(submitter, nonce=1))
    replacement = raised(evm, original)
    both = [original.sought, replacement.sought]

    # Both have to wait behind a gap, if the node keeps what waits behind a gap.
    refusals = adapter.broadcaster.send([original.raw]) + adapter.broadcaster.send([replacement.raw])
    evm.land(first)

    def look():
        adapter.broadcaster.send([original.raw, replacement.raw])
        found = adapter.follower.find_inclusions(both, adapter.follower.find_finality()).inclusions
        return found if any(one.is_final for one in found.values()) else None

    landed = evm.wait(look)

    assert len(landed) == 1
    assert (refusals, landed.keys()) == ([None, None], {replacement.tx}) or not evm.keeps_gaps
    assert [one.failure for one in landed.values()] == [None]
    # Both say so: the payment is made, and nothing else with this nonce can land.
    assert evm.fates_of(original, replacement) == [PAID, PAID]
    assert evm.balance_of(original.order.recipient) == 1_500_000


def test_the_highest_fee_is_not_raised(evm):
    (submitter,) = evm.relayers()
    payment = evm.pay(submitter)
    state = evm.adapter().observer.observe()

    assert evm.adapter(max_fee_gwei=0).nonces.raise_fee(payment.raw, submitter, state) is None

"""A transaction with a higher fee in the place of one that is stuck: whichever lands, one does."""

from dataclasses import replace

from payments.chains.base import Proof
from tests.payments.adapter.deployment import Sent


def raised(chain, sent):
    adapter = chain.adapter()
    signed = adapter.raise_fee(sent.raw, sent.turn, adapter.observe())
    return Sent(signed, sent.turn, sent.order)


def test_of_a_transaction_and_its_replacement_exactly_one_lands(chain):
    adapter = chain.adapter()
    (turn,) = chain.relayers()
    first, original = chain.pay(turn), chain.pay(replace(turn, nonce=1))
    replacement = raised(chain, original)
    both = [original.sought, replacement.sought]

    # Both have to wait behind a gap, if the node keeps what waits behind a gap.
    refusals = adapter.send([original.raw]) + adapter.send([replacement.raw])
    chain.land(first)

    def look():
        adapter.send([original.raw, replacement.raw])
        found = adapter.find_inclusions(both, adapter.find_finality()).inclusions
        return found if any(one.is_final for one in found.values()) else None

    landed = chain.wait(look)

    assert len(landed) == 1
    assert (refusals, landed.keys()) == ([None, None], {replacement.tx}) or not chain.keeps_gaps
    assert [one.failure for one in landed.values()] == [None]
    # Both say so: the payment is made, and nothing else with this nonce can land.
    proof = Proof(is_paid=True, is_nonce_used=True, is_nonce_mined=True)
    assert adapter.find_proofs(both, adapter.find_finality()) == {original.tx: proof, replacement.tx: proof}
    assert chain.balance_of(original.order.recipient) == 1_500_000


def test_a_filler_in_the_place_of_a_payment_proves_that_it_is_not_paid(chain):
    adapter = chain.adapter()
    (turn,) = chain.relayers()
    payment = chain.pay(turn)
    filler = Sent(adapter.prepare_filler(turn, adapter.observe()), turn, None)

    chain.land(filler)
    adapter.send([payment.raw])
    chain.mine()

    sighting = adapter.find_inclusions([payment.sought], adapter.find_finality())
    proofs = adapter.find_proofs([payment.sought], adapter.find_finality())
    assert (sighting.inclusions, sighting.mined_nonces) == ({}, {turn.relayer_address: 1})
    assert proofs == {payment.tx: Proof(is_paid=False, is_nonce_used=True, is_nonce_mined=True)}
    assert chain.balance_of(payment.order.recipient) == 0


def test_the_highest_fee_is_not_raised(chain):
    (turn,) = chain.relayers()
    payment = chain.pay(turn)
    state = chain.adapter().observe()

    assert chain.adapter(max_fee_gwei=0).raise_fee(payment.raw, turn, state) is None

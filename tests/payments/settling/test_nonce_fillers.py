"""A transaction that fills a nonce is followed like any other, to its end."""

import pytest

from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Settlement
from tests.support.invariants import check_agent, check_nonces
from tests.support.scenes import HOUR, Scene, states_of, status_of, transactions_of, transitions_of

pytestmark = pytest.mark.usefixtures("one_relayer")


S = SettlementState


@pytest.fixture
def scene(db: None) -> Scene:
    """An agent, a payee and a chain with nonces and one relayer; rolled back."""
    return Scene()


# --- Fillers ----------------------------------------------------------------------------------------------------------
def test_a_filler_that_loses_its_nonce_to_an_unknown_transaction_is_replaced(scene):
    scene.skip_nonce()
    scene.tend()
    scene.broadcast()
    (filler,) = scene.fillers()
    scene.use_elsewhere(filler)

    assert [scene.confirm(), scene.confirm()] == [1, 0]
    scene.tend()

    assert [row.state for row in scene.fillers()] == [S.REPLACED]
    assert transitions_of(filler)[-1][2] == "Its nonce is used."


def test_a_filler_ends_where_nodes_do_not_keep_the_state_of_the_final_block(scene):
    scene.skip_nonce()
    scene.tend()
    scene.broadcast()
    (filler,) = scene.fillers()
    scene.chain.include(filler)
    scene.chain.is_pruned = True

    scene.confirm()
    assert [row.state for row in scene.fillers()] == [S.BROADCAST]
    scene.chain.reach(utc_now() + HOUR)
    scene.confirm()

    assert [row.state for row in scene.fillers()] == [S.REPLACED]
    scene.tend()
    assert len(scene.fillers()) == 1


def test_a_filler_that_is_stuck_gets_a_higher_fee(scene):
    scene.skip_nonce()
    scene.tend()
    scene.broadcast()
    scene.bump()
    scene.tend()

    old, new = scene.fillers()
    assert (old.state, new.state, new.nonce, new.valid_until) == (S.REPLACED, S.BROADCAST, 0, None)
    scene.chain.include(old)
    assert scene.confirm() == 1
    assert [row.state for row in scene.fillers()] == [S.FINAL, S.REPLACED]


def test_a_filler_whose_block_vanished_is_sent_again(scene):
    scene.skip_nonce()
    scene.tend()
    scene.broadcast()
    (filler,) = scene.fillers()
    scene.chain.include(filler, is_final=False)
    scene.confirm()
    scene.chain.vanish(filler)
    scene.confirm()

    assert scene.broadcast() == 0
    assert scene.chain.sent == [bytes(filler.raw)] * 2
    scene.chain.include(filler)
    assert scene.confirm() == 1


def test_a_filler_that_one_node_alone_sees_in_a_final_block_is_not_final(scene):
    scene.skip_nonce()
    scene.tend()
    scene.broadcast()
    (filler,) = scene.fillers()
    scene.chain.include(filler)
    scene.chain.final_nonces.clear()

    assert scene.confirm() == 0
    scene.chain.include(filler)
    assert scene.confirm() == 1


def test_a_filler_never_expires(scene):
    scene.skip_nonce()
    scene.tend()
    scene.broadcast()
    scene.chain.reach(utc_now() + 1000 * HOUR)
    assert scene.confirm() == 0
    assert scene.fillers()[0].state == S.BROADCAST


# --- A long day -------------------------------------------------------------------------------------------------------
def test_a_line_with_an_expired_head_a_raised_fee_and_a_gap_comes_to_its_end(scene):
    expired = scene.pay_and_send()
    scene.expire(expired)
    scene.skip_nonce()
    payments = [scene.pay() for _ in range(4)]
    scene.chain.mined["relayer-0"] = 0

    for _ in range(3):
        scene.tend()
        scene.broadcast()
        scene.let_pass(HOUR / 2)
        scene.raise_fees()
        waiting = Settlement.objects.filter(chain=scene.chain.name, state__in=[S.SIGNED, S.BROADCAST])
        for row in waiting.order_by("nonce"):
            scene.chain.include(row)
        scene.broadcast()
        scene.confirm()

    assert [status_of(payment) for payment in (expired, *payments)] == [PaymentStatus.SETTLED] * 5
    assert states_of(expired)[0] == S.EXPIRED
    assert not Settlement.objects.filter(chain=scene.chain.name, state__in=[S.SIGNED, S.BROADCAST, S.INCLUDED]).exists()
    assert all(len(transactions_of(payment)) in (1, 2) for payment in payments)
    check_nonces(scene.chain.name)
    check_agent(scene.agent.id)

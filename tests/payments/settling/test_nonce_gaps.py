"""A nonce without a transaction is filled, once, and the later ones are included."""

import pytest
from django.conf import settings

from chains.port import NonceState
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Relayer, Settlement
from payments.settling import nonces, relayers
from tests.support.invariants import check_agent, check_nonces
from tests.support.scenes import Scene, at_once, state_of, states_of, status_of, transaction_of, transactions_of

pytestmark = pytest.mark.usefixtures("one_relayer")


S = SettlementState
LINE = settings.MAX_IN_FLIGHT_PER_RELAYER


@pytest.fixture
def scene(db: None) -> Scene:
    """An agent, a payee and a chain with nonces and one relayer; rolled back."""
    return Scene()


def test_a_nonce_without_a_transaction_is_filled_and_the_later_ones_land(scene, caplog):
    scene.skip_nonce()
    later = [scene.pay() for _ in range(3)]

    scene.tend()
    scene.tend()

    (filler,) = scene.fillers()
    assert (filler.nonce, filler.state, filler.valid_until, filler.first_payment) == (0, S.SIGNED, None, None)
    assert "nonce 0 was left open" in caplog.text
    check_nonces(scene.chain.name)
    assert scene.broadcast() == 4
    assert scene.chain.sent[0] == bytes(filler.raw)
    for row in (filler, *map(transaction_of, later)):
        scene.chain.include(row)
    assert scene.confirm() == 4
    assert scene.fillers()[0].state == S.FINAL
    assert [status_of(payment) for payment in later] == [PaymentStatus.SETTLED] * 3
    assert scene.events().count("payment.settled") == 3
    check_agent(scene.agent.id)


def test_several_gaps_are_filled_in_the_order_of_their_nonces(scene):
    scene.pay()
    scene.skip_nonce()
    scene.pay()
    scene.skip_nonce()
    scene.skip_nonce()
    scene.pay()

    scene.tend()
    scene.broadcast()

    assert [row.nonce for row in scene.fillers()] == [1, 3, 4]
    rows = Settlement.objects.filter(chain=scene.chain.name).order_by("nonce")
    assert scene.chain.sent == [bytes(row.raw) for row in rows]
    check_nonces(scene.chain.name)


def test_a_long_gap_is_filled_a_line_at_a_time(scene):
    Relayer.objects.filter(chain=scene.chain.name).update(next_nonce=LINE + 4)
    scene.tend()
    assert [row.nonce for row in scene.fillers()] == list(range(LINE))
    scene.broadcast()
    for row in scene.fillers():
        scene.chain.include(row)
    scene.confirm()
    scene.tend()
    assert [row.nonce for row in scene.fillers()] == list(range(LINE + 4))


def test_a_nonce_that_a_block_has_used_is_no_gap(scene):
    scene.skip_nonce()
    scene.chain.mined["relayer-0"] = 1
    scene.tend()
    assert not scene.fillers()


def test_the_nonce_of_an_expired_payment_is_filled(scene):
    expired = scene.pay_and_send()
    scene.expire(expired)
    assert [row.nonce for row in transactions_of(expired)] == [0, 1]
    later = scene.pay_and_send()
    assert transaction_of(later).nonce == 2

    scene.tend()
    scene.broadcast()

    (filler,) = scene.fillers()
    assert filler.nonce == 0
    scene.chain.include(filler)
    scene.chain.include(transaction_of(expired))
    scene.chain.include(transaction_of(later))
    assert scene.confirm() == 3
    assert [status_of(expired), status_of(later)] == [PaymentStatus.SETTLED, PaymentStatus.SETTLED]
    check_nonces(scene.chain.name)
    check_agent(scene.agent.id)


def test_the_nonce_of_an_expired_payment_that_had_several_transactions_is_filled_once(scene):
    expired = scene.pay_and_send()
    scene.bump()
    scene.expire(expired)

    scene.tend()
    scene.tend()

    assert [row.nonce for row in scene.fillers()] == [0]
    assert states_of(expired) == [S.REPLACED, S.EXPIRED, S.SIGNED]


def test_the_nonce_of_a_settled_payment_is_no_gap(scene):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment))
    scene.confirm()
    scene.chain.mined.clear()
    scene.chain.final_nonces.clear()  # a node that is behind

    scene.tend()

    assert not scene.fillers()


def test_what_a_node_that_is_behind_has_filled_after_a_failure_comes_to_nothing(scene):
    payment = scene.pay_and_send()
    row = transaction_of(payment)
    scene.chain.include(row, failure="Reverted.")
    scene.confirm()
    scene.chain.mined.clear()
    scene.chain.final_nonces.clear()

    scene.tend()
    scene.broadcast()
    scene.use_elsewhere(row)
    scene.confirm()
    scene.tend()
    scene.give_back(payment)

    assert {filler.state for filler in scene.fillers()} <= {S.REPLACED}
    assert state_of(payment) == S.FAILED
    assert scene.returns().count() == 1
    check_nonces(scene.chain.name)


def test_a_gap_of_a_relayer_beyond_the_configured_number_is_filled_too(db):
    scene = Scene(relayers=2)
    Relayer.objects.filter(pk=scene.relayer(1).pk).update(next_nonce=1)
    scene.tend()
    assert [row.relayer for row in scene.fillers()] == [scene.relayer(1)]


def test_a_gap_of_a_relayer_whose_key_we_do_not_have_keeps_the_others_from_nothing(db):
    scene = Scene(relayers=2)
    Relayer.objects.filter(chain=scene.chain.name).update(next_nonce=1)
    Relayer.objects.filter(pk=scene.relayer(0).pk).update(address="of another seed")
    scene.tend()
    assert [row.relayer for row in scene.fillers()] == [scene.relayer(1)]


@pytest.mark.usefixtures("committed")
def test_workers_at_once_fill_a_gap_once():
    scene = Scene()
    for _ in range(3):
        scene.skip_nonce()
    at_once([scene.tend] * 4)
    assert [row.nonce for row in scene.fillers()] == [0, 1, 2]


@pytest.mark.usefixtures("committed")
def test_payments_in_the_making_are_no_gap(monkeypatch):
    """The nonce of a payment that is not committed yet is not taken for one that was left open."""
    scene = Scene()
    find_to_repair = nonces.find_to_repair
    seen = []

    def pay_meanwhile(told: dict[int, NonceState]) -> list[int]:
        seen.append(find_to_repair(told))
        at_once([scene.pay] * 3)
        return list(told)

    monkeypatch.setattr(relayers, "find_to_repair", pay_meanwhile)
    scene.tend()

    assert seen == [[]]
    assert not scene.fillers()
    check_nonces(scene.chain.name)


@pytest.mark.usefixtures("committed")
def test_payments_and_healing_at_once_stop_each_other_nowhere():
    scene = Scene(relayers=2)

    def pay_many() -> None:
        for _ in range(4):
            scene.pay("0.01")

    def heal() -> None:
        for _ in range(3):
            scene.skip_nonce()
            scene.tend()

    at_once([pay_many, pay_many, heal, heal])
    scene.tend()

    check_nonces(scene.chain.name)
    assert len(scene.fillers()) == 12  # each skip is of both relayers
    check_agent(scene.agent.id)

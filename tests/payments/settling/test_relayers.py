"""The relayer pool: how relayers are registered, and that their nonces follow the chain.

Only chains with nonces have lines; for the one relayer of the others see test_relayers_without_nonces.
"""

import pytest
from django.conf import settings

from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment, Relayer, Settlement
from payments.settling.nonces import MOST_NONCES_AHEAD
from payments.settling.relayer_queue import read_relayer_queues
from tests.support.invariants import check_agent
from tests.support.scenes import Scene, at_once, nonces_of, state_of, status_of, transaction_of

pytestmark = pytest.mark.usefixtures("one_relayer")


S = SettlementState
LINE = settings.MAX_IN_FLIGHT_PER_RELAYER


@pytest.fixture
def scene(db: None) -> Scene:
    """An agent, a payee and a chain with nonces and one relayer; rolled back."""
    return Scene()


# --- Registration -----------------------------------------------------------------------------------------------------
def test_each_relayer_begins_where_the_chain_says_that_its_account_is(db, settings):
    settings.RELAYERS_PER_CHAIN = 3
    scene = Scene(relayers=0)
    scene.chain.mined.update({"relayer-0": 7, "relayer-2": 9})

    scene.tend()

    rows = Relayer.objects.filter(chain=scene.chain.name).order_by("number")
    assert [(row.number, row.address, row.next_nonce, row.mined_nonce) for row in rows] == [
        (0, "relayer-0", 7, 7),
        (1, "relayer-1", 0, 0),
        (2, "relayer-2", 9, 9),
    ]
    assert not scene.fillers()


def test_the_nonces_of_known_relayers_are_ours(scene):
    for _ in range(3):
        scene.pay()
    scene.tend()
    assert nonces_of(scene) == 3


def test_an_account_that_is_said_to_be_further_than_can_be_believed_is_not_registered(db, caplog):
    scene = Scene(relayers=0)
    scene.chain.mined["relayer-0"] = MOST_NONCES_AHEAD + 1

    scene.tend()
    assert not Relayer.objects.filter(chain=scene.chain.name).exists()
    assert "not believed" in caplog.text
    scene.chain.mined["relayer-0"] = 4
    scene.tend()

    assert nonces_of(scene) == 4


@pytest.mark.usefixtures("committed")
def test_workers_at_once_register_each_relayer_once(settings):
    settings.RELAYERS_PER_CHAIN = 8
    scene = Scene(relayers=0)
    at_once([scene.tend] * 4)
    numbers = Relayer.objects.filter(chain=scene.chain.name).values_list("number", flat=True)
    assert sorted(numbers) == list(range(8))


# --- Another seed -----------------------------------------------------------------------------------------------------
def test_relayers_of_another_seed_are_out_of_rotation_until_theirs_is_back(db, caplog):
    scene = Scene(relayers=2)
    Relayer.objects.filter(pk=scene.relayer(1).pk).update(is_enabled=False)  # by its operator
    scene.chain.seed = "stranger"

    for _ in range(3):
        scene.tend()
    assert {transaction_of(scene.pay("0.01")).relayer.address for _ in range(3)} == {"stranger-0"}
    assert sum("another RELAYER_SEED" in record.message for record in caplog.records) == 2

    scene.chain.seed = "relayer"
    scene.tend()

    # The operator's switch is as it was, and the stranger's relayers get nothing.
    assert {transaction_of(scene.pay("0.01")).relayer.address for _ in range(LINE + 2)} == {"relayer-0"}
    rows = Relayer.objects.filter(chain=scene.chain.name).values_list("address", "is_enabled", "is_funded")
    assert {*rows} == {("relayer-0", True, True), ("relayer-1", False, True), ("stranger-0", True, False)}


def test_what_relayers_of_another_seed_had_under_way_is_followed(scene):
    payment = scene.pay_and_send()
    scene.chain.seed = "stranger"
    scene.tend()
    scene.chain.include(transaction_of(payment))

    assert scene.confirm() == 1
    assert status_of(payment) == PaymentStatus.SETTLED


def test_the_operator_is_told_of_another_seed_and_not_asked_for_gas_money(scene):
    scene.chain.seed = "stranger"
    scene.tend()
    remarks = {line.relayer.address: line.remark for line in read_relayer_queues(scene.chain.name, scene.chain)}
    assert remarks == {"relayer-0": "of another RELAYER_SEED", "stranger-0": ""}


# --- Drift ------------------------------------------------------------------------------------------------------------
def test_a_relayer_goes_on_from_where_the_chain_is_at_finality(scene, caplog):
    scene.chain.mined["relayer-0"], scene.chain.final_nonces["relayer-0"] = 9, 5

    scene.tend()
    assert nonces_of(scene) == 5
    scene.chain.final_nonces["relayer-0"] = 9
    scene.tend()
    scene.tend()

    assert nonces_of(scene) == 9
    assert sum("its key is used elsewhere" in record.message for record in caplog.records) == 2
    assert not scene.fillers()


def test_payments_that_were_signed_with_used_nonces_fail_with_proof_and_are_given_back_once(scene):
    lost = [scene.pay_and_send() for _ in range(2)]
    scene.use_elsewhere(transaction_of(lost[1]))
    scene.chain.mined["relayer-0"] = scene.chain.final_nonces["relayer-0"] = 5
    scene.tend()
    assert nonces_of(scene) == 5
    kept = scene.pay_and_send()
    assert transaction_of(kept).nonce == 5
    scene.chain.include(transaction_of(kept))

    assert [scene.confirm(), scene.confirm()] == [3, 0]

    assert [state_of(payment) for payment in (*lost, kept)] == [S.FAILED, S.FAILED, S.FINAL]
    assert scene.returns().count() == 0
    scene.give_back(*lost)
    assert scene.returns().count() == 2
    assert Payment.objects.get(pk=lost[0].pk).failure_reason == "Its nonce was used by another transaction."
    check_agent(scene.agent.id)


def test_a_chain_that_is_ahead_beyond_belief_is_not_followed(scene, caplog):
    scene.chain.final_nonces["relayer-0"] = MOST_NONCES_AHEAD + 1
    scene.tend()
    assert nonces_of(scene) == 0
    assert "not believed" in caplog.text

    scene.chain.final_nonces["relayer-0"] = MOST_NONCES_AHEAD
    scene.tend()
    assert nonces_of(scene) == MOST_NONCES_AHEAD


def test_a_chain_that_is_behind_changes_nothing(scene):
    Relayer.objects.filter(chain=scene.chain.name).update(next_nonce=3)
    for nonce in range(3):
        assert not Settlement.objects.filter(relayer=scene.relayer(), nonce=nonce).exists()
    scene.chain.mined["relayer-0"] = scene.chain.final_nonces["relayer-0"] = 3

    scene.tend()
    scene.chain.mined["relayer-0"] = scene.chain.final_nonces["relayer-0"] = 0  # another node, which is behind
    scene.tend()
    scene.broadcast()
    assert nonces_of(scene) == 3
    scene.chain.mined["relayer-0"] = scene.chain.final_nonces["relayer-0"] = 3
    scene.confirm()

    # What was filled for nothing ends without a trace on the chain.
    assert {row.state for row in scene.fillers()} <= {S.REPLACED}
    assert scene.confirm() == 0

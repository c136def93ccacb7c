"""The relayer pool: who is in rotation, and that no nonce of theirs keeps the later ones waiting.

Only chains with nonces have lines; for the one relayer of the others see the end.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction

from allowance.kernel.errors import PolicySignerUnavailable
from allowance.kernel.times import utc_now
from ledger.models import LogEntry
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment, Relayer, Settlement
from payments.settling import nonces
from payments.settling.nonces import MOST_NONCES_AHEAD
from payments.settling.relayer_queue import read_relayer_queues
from policy.models import Agent
from tests.support.chains import pay_on
from tests.support.factories import make_agent
from tests.support.invariants import check_agent, check_nonces
from tests.support.scenes import (
    HOUR,
    Scene,
    at_once,
    state_of,
    states_of,
    status_of,
    transaction_of,
    transactions_of,
    transitions_of,
    void_of,
)

S = SettlementState
LINE = settings.MAX_IN_FLIGHT_PER_RELAYER


@pytest.fixture
def scene(db: None) -> Scene:
    """An agent, a payee and a chain with nonces and one relayer; rolled back."""
    return Scene()


@pytest.fixture(autouse=True)
def one_relayer(settings):
    """Register one relayer a chain; a test that has more makes them itself."""
    settings.RELAYERS_PER_CHAIN = 1


def wait_until_somebody_waits() -> None:
    """Return once a session waits for a lock that another one holds."""
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'tuple')")
            if cursor.fetchone()[0]:
                return


def nonces_of(scene: Scene, number: int = 0) -> int:
    return scene.relayer(number).next_nonce or 0


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


# --- Gas money --------------------------------------------------------------------------------------------------------
def test_a_relayer_without_gas_money_for_a_full_line_is_out_of_rotation_until_it_is_refilled(db, caplog):
    scene = Scene(relayers=2)
    scene.chain.gas_money.update({"relayer-0": LINE - 1, "relayer-1": 1000})

    for _ in range(3):
        scene.tend()
    for _ in range(8):
        assert transaction_of(scene.pay()).relayer.number == 1
    warnings = [record.getMessage() for record in caplog.records if "out of rotation" in record.message]
    assert len(warnings) == 1
    assert "relayer-0" in warnings[0]
    assert f"down to {LINE - 1}" in warnings[0]
    assert scene.relayer(0).gas_balance == LINE - 1

    scene.chain.gas_money["relayer-0"] = LINE
    scene.tend()

    assert {transaction_of(scene.pay()).relayer.number for _ in range(60)} == {0, 1}


def test_without_a_funded_relayer_nothing_is_paid_and_that_is_logged(scene):
    scene.chain.gas_money["relayer-0"] = 0
    scene.tend()

    with pytest.raises(PolicySignerUnavailable):
        scene.pay()

    entry = LogEntry.objects.get(agent=scene.agent)
    assert (entry.result, entry.rule, entry.idempotency_key) == ("blocked", "policy_signer_available", None)
    assert nonces_of(scene) == 0
    check_agent(scene.agent.id)


def test_what_a_relayer_has_under_way_is_followed_although_it_is_out_of_rotation(scene):
    payment = scene.pay()
    scene.chain.gas_money["relayer-0"] = 0
    scene.tend()
    scene.broadcast()
    scene.chain.include(transaction_of(payment))
    assert scene.confirm() == 1


# --- A jammed line ----------------------------------------------------------------------------------------------------
def test_new_payments_avoid_a_relayer_whose_line_is_jammed(db):
    scene = Scene(relayers=2)
    jammed = scene.relayer(0)
    Relayer.objects.filter(pk=jammed.pk).update(next_nonce=LINE)  # and no block has used the first of them

    for _ in range(LINE):
        assert transaction_of(scene.pay("0.01")).relayer.number == 1


@pytest.mark.usefixtures("committed")
def test_a_jammed_relayer_is_avoided_also_while_the_others_are_busy():
    scene = Scene(relayers=2)
    Relayer.objects.filter(pk=scene.relayer(0).pk).update(next_nonce=100)
    with ThreadPoolExecutor() as pool:
        with transaction.atomic():
            Relayer.objects.select_for_update().get(pk=scene.relayer(1).pk)
            waiting = pool.submit(at_once, [scene.pay])
            wait_until_somebody_waits()
        (payment,) = waiting.result()

    assert transaction_of(payment).relayer.number == 1


def test_a_relayer_whose_next_nonce_the_chain_has_used_gets_no_payments(db):
    scene = Scene(relayers=2)
    Relayer.objects.filter(pk=scene.relayer(0).pk).update(next_nonce=3, mined_nonce=4)

    assert {transaction_of(scene.pay()).relayer.number for _ in range(8)} == {1}


def test_a_relayer_that_is_no_longer_jammed_gets_payments_again(db):
    scene = Scene(relayers=2)
    Relayer.objects.filter(pk=scene.relayer(0).pk).update(next_nonce=100)
    scene.chain.mined["relayer-0"] = 100

    scene.tend()

    # Chance chooses, until the line of one is full.
    assert {transaction_of(scene.pay("0.01")).relayer.number for _ in range(LINE + 1)} == {0, 1}


def test_when_every_line_is_long_payments_go_on(db):
    scene = Scene(relayers=1)
    for _ in range(LINE + 2):
        scene.pay("0.01")
    assert nonces_of(scene) == LINE + 2


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


# --- Gaps -------------------------------------------------------------------------------------------------------------
def test_a_nonce_without_a_transaction_is_filled_and_the_later_ones_land(scene, caplog):
    scene.skip_nonce()
    later = [scene.pay() for _ in range(3)]

    scene.tend()
    scene.tend()

    (filler,) = scene.fillers()
    assert (filler.nonce, filler.state, filler.valid_until, filler.payment) == (0, S.SIGNED, None, None)
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
    gaps = nonces._find_open_nonces
    seen = []

    def pay_meanwhile(relayer_id: int, first: int) -> list[int]:
        # Twice for each relayer: before its lock, and under it. No payment gets a nonce of it in between.
        seen.append(gaps(relayer_id, first))
        if len(seen) == 1:
            at_once([scene.pay] * 3)
            return [0]
        return seen[-1]

    monkeypatch.setattr(nonces, "_find_open_nonces", pay_meanwhile)
    scene.tend()

    assert seen == [[], []]
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


# --- Without nonces ---------------------------------------------------------------------------------------------------
@pytest.fixture
def without_nonces(settings: Any) -> Scene:
    """An agent, a payee and a chain without nonces that nobody has looked at yet."""
    settings.RELAYERS_PER_CHAIN = 16
    return Scene(relayers=0, has_nonces=False)


@pytest.mark.django_db
def test_a_chain_without_nonces_has_as_many_relayers_as_its_escrow_can_know(without_nonces):
    without_nonces.tend()
    without_nonces.tend()

    rows = Relayer.objects.filter(chain=without_nonces.chain.name)
    assert [(row.number, row.address, row.next_nonce, row.mined_nonce) for row in rows] == [(0, "relayer-0", None, 0)]
    assert rows[0].gas_balance == 1000


@pytest.mark.django_db
def test_payments_without_nonces_have_none_and_leave_nothing_to_heal(without_nonces):
    scene = without_nonces
    scene.tend()
    payments = [scene.pay("0.01") for _ in range(2 * LINE)]

    assert scene.broadcast() == 2 * LINE  # nodes keep no line
    scene.let_pass(HOUR)
    scene.tend()

    assert {transaction_of(payment).nonce for payment in payments} == {None}
    assert scene.relayer().next_nonce is None
    assert scene.raise_fees() == 0
    assert not scene.fillers()
    assert {len(transactions_of(payment)) for payment in payments} == {1}


@pytest.mark.django_db
def test_the_relayer_of_a_chain_without_nonces_is_out_of_rotation_without_gas_money(without_nonces):
    scene = without_nonces
    scene.chain.gas_money["relayer-0"] = LINE - 1
    scene.tend()
    with pytest.raises(PolicySignerUnavailable):
        scene.pay()

    scene.chain.gas_money["relayer-0"] = LINE
    scene.tend()
    assert status_of(scene.pay()) == PaymentStatus.APPROVED


@pytest.mark.usefixtures("committed")
def test_agents_do_not_wait_for_each_other_where_there_are_no_nonces():
    """One payment is not committed yet; the other, of the same and only relayer, is."""
    scene, other = Scene(has_nonces=False), make_agent()

    with transaction.atomic():
        first = scene.pay()
        (second,) = at_once([lambda: pay_on(scene.chain, other, scene.service)])
        assert status_of(second) == PaymentStatus.APPROVED

    assert {transaction_of(payment).relayer_id for payment in (first, second)} == {scene.relayer().pk}
    assert [transaction_of(payment).nonce for payment in (first, second)] == [None, None]


@pytest.mark.usefixtures("committed")
def test_many_agents_at_once_pay_by_one_relayer_without_nonces():
    scene = Scene(has_nonces=False)
    agents = [make_agent() for _ in range(6)]

    def pay_five_times(agent: Agent) -> list[Payment]:
        return [pay_on(scene.chain, agent, scene.service) for _ in range(5)]

    paid = at_once([partial(pay_five_times, agent) for agent in agents])

    rows = [transaction_of(payment) for payments in paid for payment in payments]
    assert len({row.tx for row in rows}) == 30
    assert {(row.nonce, row.relayer_id) for row in rows} == {(None, scene.relayer().pk)}
    for agent in agents:
        check_agent(agent.id)


def test_what_a_relayer_whose_key_is_gone_was_to_void_another_one_voids(db):
    scene = Scene(relayers=2)
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment), failure="Reverted.")
    scene.confirm()
    lost = void_of(payment)
    address = lost.relayer.address
    Relayer.objects.filter(pk=lost.relayer_id).update(address="of another seed")
    # The one that takes its place has a line of its own.
    scene.chain.mined[address] = scene.chain.final_nonces[address] = 5

    scene.tend()
    scene.confirm()

    assert Settlement.objects.get(pk=lost.pk).state == S.REPLACED
    scene.void(payment)
    assert void_of(payment).relayer_id != lost.relayer_id
    assert status_of(payment) == PaymentStatus.FAILED
    assert scene.returns().count() == 1
    assert scene.confirm() == 0

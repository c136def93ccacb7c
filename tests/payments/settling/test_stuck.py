"""Stuck: a higher fee for the head of a line, with the same nonce; all ids are kept, whichever lands counts once.

Only chains with nonces have lines. What expires on the others is signed again: see test_renewal.
"""

import json

import pytest
from django.conf import settings

from chains.evm.adapter import EvmChain
from chains.evm.eip1559 import read_call
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment, Relayer, Settlement
from services.served_chains import served_chains
from tests.support.factories import decide
from tests.support.invariants import check_agent
from tests.support.local_ids import LOCALNET
from tests.support.scenes import (
    HOUR,
    Scene,
    at_once,
    states_of,
    status_of,
    transaction_of,
    transactions_of,
    transitions_of,
    turn_of,
)

S = SettlementState

# Chance chooses the relayer of each payment until the line of one is full: so many are on both of two.
ON_BOTH = settings.MAX_IN_FLIGHT_PER_RELAYER + 1


@pytest.fixture
def scene(db: None) -> Scene:
    """An agent, a payee and a chain with nonces and one relayer; rolled back."""
    return Scene()


# --- Which, and when --------------------------------------------------------------------------------------------------
def test_only_the_head_of_each_line_gets_a_higher_fee(db):
    scene = Scene(relayers=2)
    payments = [scene.pay() for _ in range(ON_BOTH)]
    scene.broadcast()
    scene.let_pass(HOUR / 2)

    assert scene.raise_fees() == 2

    raised = Settlement.objects.filter(chain=scene.chain.name, state=S.SIGNED)
    assert {(row.relayer.number, row.nonce) for row in raised} == {(0, 0), (1, 0)}
    assert sum(len(states_of(payment)) for payment in payments) == ON_BOTH + 2


def test_a_transaction_that_does_not_wait_long_enough_keeps_its_fee(scene, settings):
    settings.STUCK_AFTER_S = 3600
    scene.pay_and_send()
    scene.let_pass(HOUR / 2)
    assert scene.raise_fees() == 0
    scene.let_pass(HOUR / 2)
    assert scene.raise_fees() == 1


def test_a_transaction_that_was_never_offered_or_is_in_a_block_keeps_its_fee(scene):
    first = scene.pay_and_send()
    scene.chain.include(transaction_of(first), is_final=False)
    scene.confirm()
    scene.pay()
    scene.let_pass(HOUR / 2)
    assert scene.raise_fees() == 0


def test_a_transaction_that_expires_soon_keeps_its_fee(scene):
    payment = scene.pay_and_send()
    Settlement.objects.filter(payments=payment).update(valid_until=transaction_of(payment).created_at + HOUR / 60)
    scene.let_pass(HOUR / 2)
    assert scene.raise_fees() == 0


def test_a_transaction_with_the_highest_fee_stays_and_is_an_error(scene, caplog):
    payment = scene.pay_and_send()
    scene.chain.has_highest_fee = True
    scene.let_pass(HOUR / 2)

    assert scene.raise_fees() == 0

    assert states_of(payment) == [S.BROADCAST]
    assert [record.levelname for record in caplog.records if "highest that is allowed" in record.message] == ["ERROR"]


def test_what_a_relayer_cannot_pay_for_gets_no_higher_fee(scene):
    payment = scene.pay()
    scene.chain.refuses.add(bytes(transaction_of(payment).raw))
    scene.broadcast()
    Relayer.objects.filter(chain=scene.chain.name).update(is_funded=False)
    scene.let_pass(HOUR / 2)
    assert scene.raise_fees() == 0

    Relayer.objects.filter(chain=scene.chain.name).update(is_funded=True)
    assert scene.raise_fees() == 1


def test_a_relayer_whose_key_we_do_not_have_keeps_the_others_from_nothing(db):
    scene = Scene(relayers=2)
    for _ in range(ON_BOTH):
        scene.pay()
    scene.broadcast()
    Relayer.objects.filter(pk=scene.relayer(0).pk).update(address="of another seed")
    scene.let_pass(HOUR / 2)

    assert scene.raise_fees() == 1

    assert Settlement.objects.get(chain=scene.chain.name, state=S.SIGNED).relayer == scene.relayer(1)


# --- What becomes of it -----------------------------------------------------------------------------------------------
def test_the_new_transaction_takes_the_place_of_the_old_one_and_both_are_kept(scene, api):
    payment = scene.pay_and_send()
    old = transaction_of(payment)
    scene.bump()

    first, second = transactions_of(payment)
    assert (first.pk, first.state, second.state) == (old.pk, S.REPLACED, S.BROADCAST)
    assert (second.relayer, second.nonce, second.valid_until) == (old.relayer, old.nonce, old.valid_until)
    assert transitions_of(first)[-1] == ("broadcast", "replaced", f"Stuck: {second.tx} has a higher fee.")
    assert scene.chain.sent == [bytes(first.raw), bytes(second.raw)]
    shown = api.get(f"/v1/payments/{payment.pk}").json()
    assert [(one["tx"], one["state"]) for one in shown["transactions"]] == [
        (second.tx, "broadcast"),
        (first.tx, "replaced"),
    ]
    assert (shown["tx"], shown["finalTx"], shown["status"]) == (second.tx, None, "approved")


@pytest.mark.parametrize("lands", [0, 1, 2], ids=["the oldest", "the middle one", "the newest"])
@pytest.mark.parametrize("is_seen_before", [True, False])
def test_whichever_lands_counts_once(scene, api, lands, is_seen_before):
    payment = scene.pay_and_send()
    scene.bump()
    scene.bump()
    rows = transactions_of(payment)
    scene.chain.include(rows[lands], is_final=False)
    if is_seen_before:
        assert scene.confirm() == 0
        assert states_of(payment) == [S.INCLUDED if n == lands else S.REPLACED for n in range(3)]
    scene.chain.include(rows[lands])

    assert [scene.confirm(), scene.confirm()] == [1, 0]

    assert states_of(payment) == [S.FINAL if n == lands else S.REPLACED for n in range(3)]
    assert status_of(payment) == PaymentStatus.SETTLED
    assert scene.events() == ["payment.approved", "payment.settled"]
    shown = api.get(f"/v1/payments/{payment.pk}").json()
    assert (shown["finalTx"], shown["tx"]) == (rows[lands].tx, rows[2].tx)
    if lands < 2:
        assert transitions_of(rows[2])[-1] == ("broadcast", "replaced", f"{rows[lands].tx} was included in its place.")
    check_agent(scene.agent.id)


@pytest.mark.parametrize("lands", [0, 1], ids=["the older", "the newer"])
def test_whichever_reverts_gives_back_once(scene, lands):
    payment = scene.pay_and_send()
    scene.bump()
    rows = transactions_of(payment)
    scene.chain.include(rows[lands], failure="Reverted: escrow: over daily cap")

    assert [scene.confirm(), scene.confirm()] == [1, 0]

    assert states_of(payment) == [S.FAILED if n == lands else S.REPLACED for n in range(2)]
    assert status_of(payment) == PaymentStatus.APPROVED
    scene.void(payment)
    assert status_of(payment) == PaymentStatus.FAILED
    assert Payment.objects.get(pk=payment.pk).failure_reason == "Reverted: escrow: over daily cap"
    assert scene.returns().count() == 1
    check_agent(scene.agent.id)


def test_one_that_landed_and_was_reorganised_away_makes_room_for_the_other(scene):
    payment = scene.pay_and_send()
    scene.bump()
    first, second = transactions_of(payment)
    scene.chain.include(second, is_final=False)
    scene.confirm()
    scene.chain.vanish(second)
    scene.chain.include(first)

    assert scene.confirm() == 1

    assert states_of(payment) == [S.FINAL, S.REPLACED]
    check_agent(scene.agent.id)


def test_one_that_came_back_by_a_reorganisation_is_raised_above_all_that_had_its_place(scene):
    payment = scene.pay_and_send()
    scene.bump()
    first, second = transactions_of(payment)
    scene.chain.include(first, is_final=False)
    scene.confirm()
    scene.chain.vanish(first)
    scene.confirm()
    scene.broadcast()
    assert states_of(payment) == [S.BROADCAST, S.REPLACED]

    scene.bump()

    third = transaction_of(payment)
    assert json.loads(bytes(third.raw)) == [*json.loads(bytes(second.raw)), "more"]
    assert states_of(payment) == [S.REPLACED, S.REPLACED, S.BROADCAST]
    scene.chain.include(third)
    assert scene.confirm() == 1
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_workers_at_once_raise_a_fee_once():
    scene = Scene()
    payment = scene.pay_and_send()
    scene.let_pass(HOUR / 2)

    assert sum(at_once([scene.raise_fees] * 4)) == 1

    assert states_of(payment) == [S.REPLACED, S.SIGNED]


# --- What nodes want --------------------------------------------------------------------------------------------------
@pytest.fixture
def real(agent, service):
    """A signed transaction of the real adapter that was not sent, and the adapter."""
    row = Settlement.objects.get(pk=decide(agent, service).tx)
    adapter = served_chains()[LOCALNET]
    assert isinstance(adapter, EvmChain)
    return row, adapter


@pytest.mark.parametrize("factor", [0, 1, 10])
def test_a_raised_fee_is_an_eighth_higher_or_what_the_chain_asks_now(real, factor):
    row, adapter = real
    to, data, old = read_call(bytes(row.raw))
    state = {
        "maxFeePerGas": factor * old.max_fee_per_gas,
        "maxPriorityFeePerGas": factor * old.max_priority_fee_per_gas,
    }

    signed = adapter.nonces.raise_fee(bytes(row.raw), turn_of(row), state)

    assert signed is not None
    assert signed.tx != row.tx
    new_to, new_data, new = read_call(signed.raw)
    assert (new_to, new_data, new.gas) == (to, data, old.gas)
    for was, now in (
        (old.max_fee_per_gas, new.max_fee_per_gas),
        (old.max_priority_fee_per_gas, new.max_priority_fee_per_gas),
    ):
        assert now >= was * 9 / 8
        assert now >= factor * was


def test_a_fee_is_not_raised_above_the_highest(real, settings):
    row, _ = real
    *_, old = read_call(bytes(row.raw))
    cheap = EvmChain.of(settings.CHAINS[LOCALNET], settings.RELAYER_SEED, max_fee_gwei=old.max_fee_per_gas // 10**9)
    assert cheap.nonces.raise_fee(bytes(row.raw), turn_of(row), {"maxFeePerGas": 1, "maxPriorityFeePerGas": 1}) is None

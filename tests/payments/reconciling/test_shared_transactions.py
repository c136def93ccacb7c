"""What the release before writes of transactions has legs as this one makes them: it knows of one payment for each."""

from importlib import import_module
from typing import Any

import pytest
from django.db import connection

from foundation.kernel.times import utc_now
from payments.lifecycle import SettlementState
from payments.models import Leg, Payment, Settlement
from payments.payment_states import find_payment
from tests.support.scenes import Scene, transaction_of

MIGRATION: Any = import_module("payments.migrations.0019_legs_of_before")
_INSERT = """
    INSERT INTO payments_settlement (tx, payment_id, chain, relayer_id, is_void, raw, state, block_hash, reason,
                                     created_at, changed_at, agent_id, most_cost)
    VALUES (%s, %s, %s, %s, false, %s, %s, '', '', %s, %s, %s, %s)
"""


def write_as_the_release_before(payment: Payment, tx: str, state: str, *, is_found: bool = False) -> None:
    """Write the row of a transaction: one that it has signed, or one that it has found on the chain."""
    now, relayer = utc_now(), transaction_of(payment).relayer
    signed = (b"", state, now, now, None, None) if is_found else (b"raw", state, now, now, payment.agent_id, 3)
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, (tx, payment.pk, payment.chain, relayer.pk, *signed))


def update(statement: str, *parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE payments_settlement SET {statement}", parameters)  # noqa: S608 - our own


@pytest.fixture
def expired(scene: Scene) -> Payment:
    """A payment whose own transaction has expired."""
    payment = scene.pay()
    update("state = 'expired' WHERE payment_id = %s", payment.pk)
    return payment


def test_what_it_signs_has_a_leg_that_follows_it_and_learns_its_cost(expired):
    write_as_the_release_before(expired, "0xabc", "signed")
    leg = Leg.objects.get(settlement="0xabc")
    assert (leg.payment_id, leg.agent_id, leg.is_live, leg.most_cost) == (expired.pk, expired.agent_id, True, 3)

    update("state = 'replaced' WHERE tx = '0xabc'")
    assert not Leg.objects.get(settlement="0xabc").is_live

    update("state = 'final', cost = 2 WHERE tx = '0xabc'")
    leg = Leg.objects.get(settlement="0xabc")
    assert (leg.is_live, leg.cost) == (True, 2)


def test_what_it_says_this_release_s_transactions_have_cost_counts_for_no_agent_for_ever(scene):
    payment = scene.pay()
    assert gas_of(payment) == transaction_of(payment).most_cost

    update("state = 'final', cost = 0.5 WHERE payment_id = %s", payment.pk)

    assert gas_of(payment) == 0


def gas_of(payment: Payment) -> Any:
    with connection.cursor() as cursor:
        cursor.execute("SELECT payments_gas_since(%s, %s, now() - interval '1 day')", [payment.agent_id, payment.chain])
        return cursor.fetchone()[0]


def test_what_it_finds_made_by_others_is_a_leg_of_the_chains_own_transaction(scene, expired):
    other = scene.pay()
    update("state = 'final' WHERE payment_id = %s", other.pk)
    shared, own = transaction_of(other).tx, transaction_of(expired).tx

    write_as_the_release_before(expired, f"{shared}#{expired.pk}", SettlementState.REPLACED, is_found=True)

    shown = find_payment(expired.pk)
    assert shown is not None
    assert {one.tx for one in shown.transactions} == {shared, own}


def test_it_reads_each_payment_of_a_shared_transaction_as_this_one_does(scene):
    payment = scene.pay()
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM payments_states(%s::text[])", [[payment.pk]])
        (row,) = cursor.fetchall()
        named = {column.name: value for column, value in zip(cursor.description, row, strict=True)}
        cursor.execute("SELECT * FROM payments_states_2(%s::text[])", [[payment.pk]])
        (row,) = cursor.fetchall()
        now = {column.name: value for column, value in zip(cursor.description, row, strict=True)}

    assert now == {**named, "escrow_id": payment.escrow_id}
    assert list(named) == [name for name in now if name != "escrow_id"]


def test_what_it_has_written_before_has_legs_once_migrated(scene):
    live, over = scene.pay(), scene.pay()
    scene.chain.most_together = 1
    update("state = 'expired' WHERE payment_id = %s", over.pk)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM payments_leg")

    with connection.schema_editor() as editor:
        MIGRATION.make_legs(None, editor)
        MIGRATION.make_legs(None, editor)

    legs = {leg.payment_id: (leg.settlement_id, leg.is_live, leg.most_cost) for leg in Leg.objects.all()}
    assert legs[live.pk] == (transaction_of(live).tx, True, transaction_of(live).most_cost)
    assert not legs[over.pk][1]


def test_what_this_release_signs_names_its_first_payment_for_that_one(scene):
    payment = scene.pay()

    with connection.cursor() as cursor:
        cursor.execute("SELECT tx FROM payments_settlement WHERE payment_id = %s", [payment.pk])
        assert cursor.fetchall() == [(transaction_of(payment).tx,)]
    assert Settlement.objects.get(pk=transaction_of(payment).pk).payments.get() == payment

"""One transaction can make several payments: each has a row of it, and each names it by the chain's own id."""

from importlib import import_module
from typing import Any

import pytest
from django.db import connection

from foundation.kernel.times import utc_now
from payments.lifecycle import SettlementState
from payments.models import Payment, Settlement
from payments.payment_states import find_payment
from payments.settling.transaction_rows import read_rows
from tests.support.scenes import Scene, transaction_of

MIGRATION: Any = import_module("payments.migrations.0016_shared_transactions")


def write_as_the_release_before(payment: Payment, tx: str) -> Settlement:
    """Write the row of a transaction that another payment has already as the release before does."""
    now = utc_now()
    return Settlement.objects.create(
        tx=f"{tx}#{payment.pk}", payment=payment, chain=payment.chain, relayer=transaction_of(payment).relayer, raw=b"",
        state=SettlementState.REPLACED, created_at=now, changed_at=now,
    )  # fmt: skip


@pytest.fixture
def row(scene: Scene) -> Settlement:
    """A row that the release before has written, of the transaction 0xabc."""
    return write_as_the_release_before(scene.pay(), "0xabc")


def test_what_the_release_before_writes_names_the_chains_own_id(row):
    row.refresh_from_db()
    (read,) = read_rows(Settlement.objects.filter(pk=row.pk))
    shown = find_payment(str(row.payment_id))

    assert (row.chain_tx, read.chain_tx) == ("0xabc", "0xabc")
    assert shown is not None
    assert [one.tx for one in shown.transactions if one.state == SettlementState.REPLACED] == ["0xabc"]


def test_what_the_release_before_has_written_names_it_once_migrated(row):
    Settlement.objects.filter(pk=row.pk).update(shared_tx=None)

    with connection.cursor() as cursor:
        cursor.execute(MIGRATION.FILL_IN)

    row.refresh_from_db()
    assert row.chain_tx == "0xabc"


def test_a_transaction_that_makes_one_payment_is_named_by_its_key(scene):
    own = transaction_of(scene.pay())

    assert (own.shared_tx, own.chain_tx) == (None, own.tx)

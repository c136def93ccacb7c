"""Which relayer takes a payment: one with gas money whose line is not jammed."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import settings
from django.db import connection, transaction

from foundation.kernel.errors import PolicySignerUnavailable
from ledger.models import LogEntry
from payments.models import Relayer
from tests.support.invariants import check_agent
from tests.support.scenes import Scene, at_once, nonces_of, transaction_of

pytestmark = pytest.mark.usefixtures("one_relayer")

LINE = settings.MAX_IN_FLIGHT_PER_RELAYER


@pytest.fixture
def scene(db: None) -> Scene:
    """An agent, a payee and a chain with nonces and one relayer; rolled back."""
    return Scene()


def wait_until_somebody_waits() -> None:
    """Return once a session waits for a lock that another one holds."""
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'tuple')")
            if cursor.fetchone()[0]:
                return


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

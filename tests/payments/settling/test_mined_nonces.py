"""The nonces that a node says blocks have used: of all relayers at once, never ahead of what was given out."""

import threading

import pytest
from django.db import connection, transaction

from payments.models import Relayer
from payments.settling.nonces import record_mined_nonces
from tests.support.factories import new_address, new_name

GIVEN_OUT = 5


def make_relayer(chain: str, number: int = 0) -> Relayer:
    return Relayer.objects.create(chain=chain, number=number, address=new_address(), next_nonce=GIVEN_OUT)


def mined(relayer: Relayer) -> int:
    return Relayer.objects.get(pk=relayer.pk).mined_nonce


@pytest.fixture
def chain(db: None) -> str:
    return new_name("chain")


def test_the_nonces_of_all_relayers_are_recorded(chain):
    first, second = make_relayer(chain), make_relayer(chain, 1)

    record_mined_nonces(chain, {first.address: 3, second.address: GIVEN_OUT})

    assert (mined(first), mined(second)) == (3, GIVEN_OUT)


def test_a_node_that_is_behind_is_believed_as_well(chain):
    relayer = make_relayer(chain)
    for said in (3, 2):
        record_mined_nonces(chain, {relayer.address: said})
        assert mined(relayer) == said


def test_nonces_that_were_never_given_out_are_not_recorded(chain):
    relayer = make_relayer(chain)

    record_mined_nonces(chain, {relayer.address: GIVEN_OUT + 1})

    assert mined(relayer) == 0


def test_relayers_of_other_chains_keep_theirs(chain):
    other = make_relayer(f"{chain}-other")

    record_mined_nonces(chain, {other.address: 3})
    record_mined_nonces(chain, {})

    assert mined(other) == 0


@pytest.mark.usefixtures("committed")
def test_a_relayer_that_a_payment_has_locked_is_waited_for_while_the_others_go_on():
    chain = new_name("chain")
    busy, free = make_relayer(chain), make_relayer(chain, 1)

    def record() -> None:
        try:
            record_mined_nonces(chain, {busy.address: 3, free.address: 3})
        finally:
            connection.close()

    recorder = threading.Thread(target=record)
    with transaction.atomic():
        Relayer.objects.select_for_update(no_key=True).get(pk=busy.pk)
        recorder.start()
        while mined(free) == 0:
            assert recorder.is_alive()
        # No lock is left on it: another payment gets it at once.
        Relayer.objects.select_for_update(no_key=True, nowait=True).get(pk=free.pk)
        assert mined(busy) == 0
    recorder.join(timeout=60)

    assert mined(busy) == 3
    Relayer.objects.filter(chain=chain).delete()

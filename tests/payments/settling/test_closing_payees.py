"""A payee that closes its account for a token, to keep the rent: how often the relayer makes one, on a chain."""

import pytest

from payments.lifecycle import PaymentStatus
from payments.models import Payment
from tests.support.closing_payee import UNITS
from tests.support.localnets import SOLANA

pytestmark = pytest.mark.usefixtures("committed")
ROUNDS = 10
LEAST = 890_880


@pytest.mark.parametrize("left_lamports", [0, LEAST])
def test_a_payee_that_closes_its_account_after_each_payment_gets_one_rent(payee, left_lamports):
    for _ in range(ROUNDS):
        if payee.ask_for_payment():
            payee.include_payment()
            payee.close(left_lamports)

    assert payee.rents == 1
    assert len(payee.payments) == 1


def test_an_account_that_the_watcher_never_saw_is_remembered_from_what_was_settled(payee):
    assert payee.ask_for_payment()
    payee.include_payment()
    payee.close()
    payee.settle_payments()

    assert not any(payee.ask_for_payment() for _ in range(3))
    assert payee.rents == 1


def test_a_payee_whose_account_is_there_only_while_the_watcher_looks_gets_one_rent(payee):
    assert payee.ask_for_payment()
    payee.settle_payments()
    for _ in range(ROUNDS - 1):
        SOLANA.observe()
        payee.close()
        assert payee.ask_before_the_watcher_looks()
        payee.include_payment()
        payee.open()
    payee.settle_payments()

    statuses = [Payment.objects.get(pk=payment.pk).status for payment in payee.payments]
    assert statuses == [PaymentStatus.SETTLED, *[PaymentStatus.FAILED] * (ROUNDS - 1)]
    assert (payee.rents, payee.held) == (1, 0)


def test_a_payee_that_opens_its_account_again_is_paid_again(payee):
    assert payee.ask_for_payment()
    payee.include_payment()
    payee.close()
    assert not payee.ask_for_payment()
    payee.open()

    assert payee.ask_for_payment()
    payee.include_payment()

    assert (payee.rents, payee.held) == (1, UNITS)


def test_who_keeps_its_account_is_paid_again_before_and_after_the_first_payment_is_final(payee):
    assert payee.ask_for_payment()
    assert payee.ask_for_payment()
    payee.include_payment()
    assert payee.ask_for_payment()
    payee.settle_payments()
    assert payee.ask_for_payment()
    payee.settle_payments()

    assert (payee.rents, payee.held) == (1, 4 * UNITS)

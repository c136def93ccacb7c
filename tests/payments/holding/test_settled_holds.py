"""How long a payment took that a person has approved: from their approval on, not from when it was asked for."""

from datetime import timedelta

import pytest

from chains.catalogue import alias_of
from foundation.kernel import counters
from foundation.kernel.counting import SUM
from foundation.kernel.times import utc_now
from payments.lifecycle import SettlementState
from payments.models import Payment, Settlement
from payments.settling.state_changes import StateChange
from payments.settling.transaction_rows import read_rows
from payments.settling.transitions import settle
from tests.support.counted import counted, forget_counts
from tests.support.factories import decide, make_service
from tests.support.holds import approve, asks_above

pytestmark = [pytest.mark.django_db, pytest.mark.rolled_back]


@pytest.mark.parametrize("is_held", [True, False])
def test_the_persons_hours_are_no_part_of_the_time_to_settle(is_held, django_capture_on_commit_callbacks):
    asked = utc_now() - timedelta(hours=20)
    entry = decide(asks_above(), make_service(), "6" if is_held else "5", at=asked)
    if is_held:
        approve(entry)
    payment = Payment.objects.get(pk=entry.payment_id)
    (row,) = read_rows(Settlement.objects.filter(payments=payment))
    settled_at = payment.decided_at + timedelta(seconds=7)
    forget_counts()

    with django_capture_on_commit_callbacks(execute=True):
        settle([StateChange(row, SettlementState.FINAL)], settled_at)

    took = counted(counters.SETTLEMENT_SECONDS)
    assert took[SUM, alias_of(payment.chain)] == 7
    forget_counts()

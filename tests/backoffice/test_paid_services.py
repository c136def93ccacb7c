"""What was paid to services so far."""

from datetime import timedelta
from decimal import Decimal

import pytest

from backoffice.models import DailyTotal, RollUp
from backoffice.paid_services import find_paid
from backoffice.rollups import roll_up
from foundation.kernel.assets import Asset
from foundation.kernel.errors import ContractError
from foundation.kernel.times import utc_now
from payments.models import Payment
from payments.settling.transitions import fail
from services.dossiers import find_dossiers
from services.paid import Paid
from tests.support.factories import decide, make_agent, make_service

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_added_up(db: None) -> None:
    DailyTotal.objects.all().delete()
    RollUp.objects.all().delete()


@pytest.mark.parametrize("ages_h", [(0, 0, 0), (100, 50, 0), (100, 90, 80)])
def test_payments_are_counted_whether_they_were_added_up_or_not_without_those_that_failed(ages_h):
    agent, service, other = make_agent(), make_service(), make_service()
    now = utc_now()
    for number, age_h in enumerate(ages_h):
        decide(agent, service, f"{number + 1}.5", at=now - timedelta(hours=age_h))
    failed = decide(agent, service, "4", at=now)
    with pytest.raises(ContractError):
        decide(agent, service, "11", at=now)
    fail(Payment.objects.get(entry=failed), reason="A test")
    roll_up(now)

    assert find_paid([service.id, other.id]) == {service.id: [Paid("USDC", 3, Decimal("7.5"))]}


def test_assets_are_not_added_up_with_one_another():
    service = make_service()
    decide(make_agent(), service, "2")
    Payment.objects.filter(service=service).update(asset=Asset.EURC)
    decide(make_agent(), service, "1.25")

    assert find_paid([service.id])[service.id] == [Paid("EURC", 1, Decimal(2)), Paid("USDC", 1, Decimal("1.25"))]


def test_who_decides_on_a_payee_is_told_what_was_paid_to_it():
    service = make_service()
    decide(
        make_agent(balance="5000", max_per_payment="5000", daily_limit="5000", weekly_limit="5000"), service, "1234.5"
    )

    (dossier,) = find_dossiers([service])

    assert dossier.paid_in_words == "1 payment, 1,234.50 USDC"

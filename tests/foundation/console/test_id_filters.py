"""Filters of agent and payee take a part of an id, and offer ids."""

from decimal import Decimal

import pytest
from django.contrib.auth.models import Permission, User

from backoffice.rollups import roll_up
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from ledger.operations import fund_agent
from tests.foundation.console.test_lists import ids_of, text_of
from tests.support.factories import decide, make_agent, make_agent_of_old, make_service


@pytest.fixture
def paid(db):
    """An agent that paid a payee three times."""
    agent, service = make_agent(), make_service()
    for amount in ("3", "1.5", "2.25"):
        decide(agent, service, amount)
    return agent, service


def test_a_part_of_an_id_filters_by_all_that_contain_it_and_a_whole_one_by_itself_alone(auditor, paid):
    agent, service = paid
    longer = make_agent_of_old(f"{agent.pk}0", asset=Asset.USDC)
    fund_agent(longer.pk, amount=Decimal(10), by="test")
    other = decide(longer, service, "1")

    of_both = ids_of(auditor, "payments_payment", agent=agent.pk[2:])
    of_one = ids_of(auditor, "payments_payment", agent=agent.pk)

    assert of_both - of_one == {other.payment_id}
    assert len(of_one) == 3
    assert len(ids_of(auditor, "ledger_logentry", payee=service.pk[2:])) == 4


def test_the_sums_of_a_part_of_an_id_are_those_of_the_rows(auditor, paid):
    agent, _ = paid
    roll_up(utc_now())

    page = text_of(auditor.get("payments_payment_changelist", agent=agent.pk[2:]))

    assert "USDC approved, on its way 3 6.75" in page


def test_a_part_that_very_many_ids_contain_filters_by_all_of_them(auditor, paid, monkeypatch):
    monkeypatch.setattr("foundation.console.id_filters._MOST_LISTED", 0)

    assert len(ids_of(auditor, "payments_payment", agent=paid[0].pk[2:])) == 3


def test_ids_are_offered_to_those_who_may_see_what_has_them(auditor, make_person, paid):
    sees_payments_alone = make_person()
    view = Permission.objects.get(codename="view_payment", content_type__app_label="payments")
    User.objects.get(username=sees_payments_alone.name).user_permissions.add(view)

    pages = [one.get("payments_payment_changelist").content.decode() for one in (auditor, sees_payments_alone)]

    assert ["<datalist" in page for page in pages] == [True, False]

"""Requests for a second person to approve a payment: what they show of it as it is now, and that they end with it."""

from datetime import timedelta

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from ledger.models import Hold, HoldAnswer
from payments.holding.proposals import end_requests
from payments.tasks import end_holds
from policy.operations import pause_agent
from services.models import Service
from services.operations import Registration, register_service
from staff.change_requests import expire
from staff.findings import find_requests
from staff.models import ChangeRequest, RequestState
from staff.second_person import LIFETIME
from tests.foundation.console.test_payment_page import words
from tests.support.factories import decide, make_service, new_address
from tests.support.holds import asks_above, end, finish, say

pytestmark = pytest.mark.usefixtures("db")


@pytest.fixture
def hold(settings):
    settings.FOUR_EYES = True
    return Hold.objects.select_related("entry").get(entry=decide(asks_above(), make_service(), "6"))


@pytest.fixture
def request_row(finance, hold):
    finance.carry_out("ledger_hold", "approve", hold.pk, reason="Ordered by me")
    return ChangeRequest.objects.get()


@pytest.fixture
def second(make_person):
    return make_person(group="Finance")


def page_of(person, request):
    return words(person.get("staff_changerequest_change", request.pk).content.decode())


# --- What it shows ----------------------------------------------------------------------------------------------------
def test_the_second_person_sees_the_address_that_is_registered_now(second, hold, request_row):
    text = page_of(second, request_row)
    address = f"evm-localnet:{new_address()}"

    assert text.count("Address registered now") == text.count("Address asked for") == 1
    assert "Not as " not in text

    register_service(Registration(hold.service, "A payee", address, Asset.USDC, None), key_id="")
    service = Service.objects.get(pk=hold.service)
    text = page_of(second, request_row)

    assert f"Not as {request_row.asked_by} saw it: The payee is registered at another address by now" in text
    assert f"Address registered now {service.canonical_recipient}" in text
    assert f"Address asked for {dict(request_row.shown)['Address']}" in text
    assert service.canonical_recipient != dict(request_row.shown)["Address"]


def test_the_second_person_is_told_that_somebody_has_answered_or_that_it_ended(second, hold, request_row):
    say(hold.entry, HoldAnswer.DECLINE)
    assert "fiona has declined the payment already." in page_of(second, request_row)

    Hold.objects.update(answer="", answered_by="", answer_reason="", answered_at=None)
    pause_agent(hold.agent_id, by="kim")
    finish(hold.entry)
    assert "The payment does not wait for approval any more." in page_of(second, request_row)


def test_a_payment_that_is_not_there_cannot_be_confirmed(second, request_row):
    ChangeRequest.objects.update(arguments={"payment": "pay_nothing"})

    assert "It cannot be confirmed." in page_of(second, request_row)


# --- How long it waits ------------------------------------------------------------------------------------------------
def test_nobody_is_asked_for_longer_than_the_payment_waits(hold, request_row):
    assert request_row.expires_at == hold.expires_at < request_row.asked_at + LIFETIME


def test_a_payment_that_waits_for_longer_is_asked_for_no_longer_than_anything_else(finance, settings):
    settings.FOUR_EYES = True
    entry = decide(asks_above(approval_hours=200), make_service(), "6")
    finance.carry_out("ledger_hold", "approve", entry.payment_id, reason="Ordered by me")

    request = ChangeRequest.objects.get()
    assert request.expires_at == request.asked_at + LIFETIME


def decline(hold):
    say(hold.entry, HoldAnswer.DECLINE)


def approve(hold):
    end(hold.entry)


def pause(hold):
    pause_agent(hold.agent_id, by="kim")
    finish(hold.entry)


@pytest.mark.parametrize("over", [decline, approve, pause])
def test_nobody_is_asked_any_more_once_it_was_answered_or_has_ended(second, hold, request_row, over):
    assert end_requests() == 0
    assert [one.count for one in find_requests()] == [1]
    over(hold)

    assert end_requests() == 1

    assert list(find_requests()) == []
    request_row.refresh_from_db()
    assert (request_row.state, request_row.decided_by) == (RequestState.REFUSED, "")
    text = page_of(second, request_row)
    assert "Nothing was done." in text
    assert "Answer The payment does not wait for approval any more." in text


def test_what_expired_with_its_payment_stays_expired(hold, request_row):
    finish(hold.entry, hold.expires_at)
    ChangeRequest.objects.update(expires_at=utc_now() - timedelta(seconds=1))

    assert (end_requests(), expire()) == (0, 1)


def test_one_that_was_confirmed_stays_confirmed(second, hold, request_row):
    second.client.post(f"/console/staff/changerequest/{request_row.pk}/decide/", {"confirm": "yes"})

    assert end_requests() == 0
    request_row.refresh_from_db()
    hold.refresh_from_db()
    assert (request_row.state, hold.answer) == (RequestState.CONFIRMED, HoldAnswer.APPROVE)


def test_the_worker_ends_them_each_second(hold, request_row):
    say(hold.entry, HoldAnswer.DECLINE)

    end_holds()

    request_row.refresh_from_db()
    assert request_row.state == RequestState.REFUSED

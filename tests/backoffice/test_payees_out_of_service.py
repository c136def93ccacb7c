"""A payee that agents could pay, and that somebody registered anew: staff hear at once who did that, and since when."""

from datetime import timedelta

import pytest

from backoffice.alarms.looking import look
from backoffice.models import Alarm, Notice, Occasion
from foundation.findings import Finder
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from policy.key_operations import create_api_key
from services.models import Service
from services.operations import (
    UNCHANGED,
    Registration,
    approve_service,
    disable_service,
    register_service,
    reject_service,
    reopen_service,
)
from services.payees_out_of_service import PAYEES, find_payees_out_of_service
from tests.support.factories import make_service, new_address

pytestmark = pytest.mark.django_db
HERE = "evm-localnet"


@pytest.fixture(autouse=True)
def _quiet(db: None) -> None:
    Service.objects.filter(status="pending_approval").update(status="rejected")


@pytest.fixture
def key():
    made, _ = create_api_key(name="Shop's robot", scopes=["services"], by="test")
    return made


def move(service, *, key_id="", recipient=None, asset=Asset.USDC, webhook_url=UNCHANGED):
    recipient = recipient or f"{HERE}:{new_address()}"
    asked = Registration(service.pk, "A payee", recipient, asset, webhook_url)
    return register_service(asked, key_id=key_id)[0]


def only():
    (item,) = find_payees_out_of_service()
    return item


def test_it_says_which_payee_who_changed_what_and_since_when_nobody_is_paid(key):
    service = make_service()

    moved = move(service, key_id=key.pk)

    item = only()
    at = moved.registrations.first().registered_at
    assert (item.kind.name, item.subject, item.severity, item.since) == ("payees", key.pk, "error", at)
    assert item.page.key == service.pk
    assert item.says == (
        f"Payee {service.pk} is out of service: the API key “Shop's robot” ({key.pk}) changed its recipient from "
        f"{service.canonical_recipient} to {moved.canonical_recipient} at {at:%Y-%m-%d %H:%M} UTC. Nobody is paid "
        "there until somebody approves it."
    )


def test_a_changed_asset_and_webhook_are_named_and_of_a_url_its_host_alone(key):
    service = make_service(webhook_url="https://hooks.example.com/secret-1")

    move(
        service, key_id=key.pk, recipient=service.recipient, asset=Asset.EURC, webhook_url="https://a.example/secret-2"
    )

    assert (
        "changed its asset from USDC to EURC and its webhook URL from hooks.example.com to a.example at" in only().says
    )
    assert "secret" not in only().says


def test_further_changes_are_counted_and_the_first_one_stays_the_moment_and_the_key(key):
    service = make_service()
    first = move(service, key_id=key.pk).registrations.first()
    other, _ = create_api_key(name="Another", scopes=["services"], by="test")
    move(service, key_id=other.pk)
    move(service, key_id=other.pk, recipient=service.recipient)

    item = only()

    assert (item.count, item.since) == (3, first.registered_at)
    assert f"({key.pk}) changed it, and it was changed back, at" in item.says
    assert "2 changes followed." in item.says


def test_nobody_s_registration_is_told_as_such():
    move(make_service())

    assert "somebody unknown changed its recipient" in only().says


# --- What is no payee out of service
def test_a_new_payee_and_a_new_name_put_nothing_out_of_service(key):
    service = make_service()
    make_service(approved=False)
    register_service(Registration(service.pk, "Another name", service.recipient, Asset.USDC), key_id=key.pk)

    assert list(find_payees_out_of_service()) == []


@pytest.mark.parametrize("decide", [disable_service, reject_service])
def test_what_nobody_could_be_paid_by_anyway_is_none(decide):
    service = make_service(approved=decide is disable_service)
    decide(service.pk, by="ann", reason="No.")

    move(service)

    assert list(find_payees_out_of_service()) == []


def test_it_is_over_once_somebody_has_decided_either_way(key):
    approved, rejected = make_service(), make_service()
    for service in (approved, rejected):
        move(service, key_id=key.pk)
    assert only().count == 2

    approve_service(approved.pk, by="ann")
    reject_service(rejected.pk, by="ann", reason="A thief's.")

    assert list(find_payees_out_of_service()) == []
    reopen_service(rejected.pk, by="ann", reason="Once more.")
    move(rejected, key_id=key.pk)
    assert list(find_payees_out_of_service()) == []


# --- The alarm
def test_people_are_told_once_of_each_payee_again_if_it_is_changed_again_and_when_it_is_over(key, settings, mailoutbox):
    settings.NOTICE_URLS = {"finance": "https://chat.example/f", "operations": "https://chat.example/o"}
    service, now = make_service(), utc_now()

    def told():
        look(now, [Finder(find_payees_out_of_service, (PAYEES,))])
        return [*Notice.objects.order_by("id").values_list("occasion", "role")]

    assert told() == []
    move(service, key_id=key.pk)
    raised = [(Occasion.RAISED, "finance"), (Occasion.RAISED, "operations")]
    assert told() == told() == raised
    move(service, key_id=key.pk)
    grown = [*raised, (Occasion.GROWN, "finance"), (Occasion.GROWN, "operations")]
    assert told() == grown
    approve_service(service.pk, by="ann")
    assert told() == grown
    now += timedelta(minutes=6)
    assert [occasion for occasion, _ in told()[4:]] == [Occasion.OVER, Occasion.OVER]
    assert Alarm.objects.get(kind="payees").is_over


def test_what_one_key_changes_is_one_alarm_that_names_the_first_few_and_grows_with_each(key):
    services = [make_service() for _ in range(5)]
    other, _ = create_api_key(name="Another", scopes=["services"], by="test")
    moved = [move(service, key_id=key.pk) for service in services]
    move(services[4], key_id=key.pk)
    move(make_service(), key_id=other.pk)

    item, of_other = find_payees_out_of_service()

    assert (item.subject, item.count, of_other.subject, of_other.count) == (key.pk, 6, other.pk, 1)
    at = moved[0].registrations.order_by("id").last().registered_at
    assert item.since == at
    first = f"its recipient from {services[0].canonical_recipient} to {moved[0].canonical_recipient}"
    assert f"5 payees are out of service: since {at:%Y-%m-%d %H:%M} UTC the API key" in item.says
    assert f"has changed {services[0].pk} ({first}), {services[1].pk} (" in item.says
    assert "and 2 more. None of them is paid until somebody approves it." in item.says
    assert item.page.url.endswith("status__exact=pending_approval")


def test_of_very_many_those_that_are_out_for_longest_are_looked_at_and_all_are_counted(key, monkeypatch):
    monkeypatch.setattr("services.payees_out_of_service._MOST", 2)
    services = [make_service() for _ in range(4)]
    for service in services:
        move(service, key_id=key.pk)

    item = only()

    assert item.count == 4
    assert f"{services[1].pk} (its recipient" in item.says
    assert services[2].pk not in item.says


def test_as_many_queries_for_many_as_for_one(key, django_assert_num_queries):
    for _ in range(3):
        move(make_service(), key_id=key.pk)

    with django_assert_num_queries(3):
        assert only().count == 3

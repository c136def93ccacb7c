"""A webhook URL on another host has another secret, from the moment of its registration and for good."""

import pytest
from standardwebhooks import Webhook

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from services.models import WebhookEndpoint, WebhookSecret
from services.operations import Registration, approve_service, register_service, reject_service
from services.webhooks.operations import reveal_secrets, rotate_secret
from tests.services.webhooks.couriers import make_payee
from tests.services.webhooks.told import DAY, Payee
from tests.support.factories import make_service
from tests.support.moved_payees import register, secret_of

OLD, NEW = "old.example", "new.example"


def payee_at(host):
    return make_payee(f"https://{host}/hook")


def endpoint_of(service):
    return WebhookEndpoint.objects.get(pk=service.id)


# --- What is another host, and what is not ----------------------------------------------------------------------------
@pytest.mark.django_db
@pytest.mark.parametrize(
    "url",
    ["https://new.example/hook", "https://hooks.old.example/", "https://example/", "https://old.example.org/",
     "https://oId.example/", "https://xn--old-example-q4a.example/", "http://127.0.0.1:9000/hook"],
)  # fmt: skip
def test_on_another_host_there_is_another_secret(url):
    service = payee_at(OLD)
    before = secret_of(service)

    register(service, url)

    assert secret_of(service) != before


@pytest.mark.django_db
@pytest.mark.parametrize(
    "url",
    ["https://old.example/hook", "https://old.example/elsewhere?x=1", "https://OLD.Example/hook",
     "https://old.example./hook", "https://old.example:443/hook", "https://old.example:8443/hook"],
)  # fmt: skip
def test_on_the_same_host_the_secret_stays_however_the_host_is_written(url):
    service = payee_at(OLD)
    before = secret_of(service)

    register(service, url)

    assert secret_of(service) == before
    assert endpoint_of(service).secret_rotated_at is None


@pytest.mark.django_db
def test_a_registration_that_names_no_url_keeps_the_secret():
    service = payee_at(OLD)
    before = secret_of(service)

    register_service(Registration(service.id, "Another name", service.recipient, Asset(service.asset)))

    assert secret_of(service) == before


# --- Nothing of the host before is left -------------------------------------------------------------------------------
@pytest.mark.django_db
def test_what_the_host_before_knows_signs_nothing_from_the_registration_on():
    service = payee_at(OLD)
    secret_of(service)
    rotate_secret(service.id, by="ann")
    known = {*reveal_secrets(service.id, by="ann")}
    assert len(known) == 2

    register(service, f"https://{NEW}/hook")

    assert not WebhookSecret.objects.filter(endpoint=service.id).exists()
    assert secret_of(service) not in known


@pytest.mark.django_db
@pytest.mark.parametrize("between", [None, f"https://{NEW}/hook"])
def test_who_comes_back_to_a_host_comes_back_to_no_secret_of_it(between):
    service = payee_at(OLD)
    before = secret_of(service)

    register(service, between)
    register(service, f"https://{OLD}/hook")

    assert secret_of(service) != before


@pytest.mark.django_db
def test_a_move_by_way_of_no_url_leaves_no_secret_behind():
    service = payee_at(OLD)
    before = secret_of(service)

    register(service, None)
    assert not WebhookSecret.objects.filter(endpoint=service.id).exists()
    register(service, f"https://{NEW}/hook")

    assert secret_of(service) != before


@pytest.mark.django_db
def test_a_move_that_is_rejected_has_ended_the_secret_all_the_same():
    service = payee_at(OLD)
    before = secret_of(service)
    register(service, f"https://{NEW}/hook")
    shown = secret_of(service)  # as staff may, before they decide
    reject_service(service.id, by="test")

    register(service, f"https://{OLD}/hook")
    approve_service(service.id, by="test")

    assert secret_of(service) not in {before, shown}


@pytest.mark.django_db
def test_an_approval_changes_no_secret():
    service = payee_at(OLD)
    register(service, f"https://{NEW}/hook")
    shown = secret_of(service)

    approve_service(service.id, by="test")

    assert secret_of(service) == shown


@pytest.mark.django_db
def test_what_waited_for_the_host_before_is_signed_for_the_new_one_alone():
    payee = Payee()
    (before,) = reveal_secrets(payee.id, by="ann")
    payee.hear()
    payee.register_again(f"https://{NEW}/hook")
    approve_service(payee.id, by="test")

    (claimed,) = payee.claim(utc_now() + DAY)

    assert claimed.url == f"https://{NEW}/hook"
    assert [Webhook(secret).sign("evt_1", payee.at, "") for secret in claimed.secrets] == [
        Webhook(secret_of(payee)).sign("evt_1", payee.at, "")
    ]
    assert len(claimed.secrets) == 1
    assert not fits(before, claimed.secrets[0])


def fits(text, secret):
    now = utc_now()
    return Webhook(text).sign("evt_1", now, "") == Webhook(secret).sign("evt_1", now, "")


# --- It is kept that and why ------------------------------------------------------------------------------------------
@pytest.mark.django_db
def test_a_rotation_is_kept_with_its_moment_and_its_reason():
    service = payee_at(OLD)
    secret_of(service)
    before = utc_now()

    register(service, f"https://{NEW}./hook")
    assert before <= endpoint_of(service).secret_rotated_at <= utc_now()
    said = "The webhook URL's host was old.example, and is new.example now."
    assert endpoint_of(service).secret_rotated_reason == said

    secret_of(service)
    rotate_secret(service.id, by="ann")
    assert endpoint_of(service).secret_rotated_reason == "By finance staff: the previous one signs, too, for 24 hours."

    register(service, None)
    assert endpoint_of(service).secret_rotated_reason == "The webhook URL's host was new.example, and is none now."


@pytest.mark.django_db
def test_the_longest_hosts_that_may_be_registered_fit_the_reason():
    long, longer = (f"https://{letter * 61}.{letter * 63}.{letter * 63}.{letter * 57}.example/" for letter in "ab")
    service = make_service(webhook_url=long)
    secret_of(service)

    register(service, longer)

    assert len(endpoint_of(service).secret_rotated_reason) > 500


@pytest.mark.django_db
def test_where_nobody_knew_a_secret_no_rotation_is_kept():
    service = payee_at(OLD)

    register(service, f"https://{NEW}/hook")

    assert endpoint_of(service).secret_rotated_at is None

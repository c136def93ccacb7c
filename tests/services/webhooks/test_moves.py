"""A webhook URL on another host has another secret, from the moment of its registration and for good."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections
from standardwebhooks import Webhook, WebhookVerificationError

from allowance.kernel.assets import Asset
from allowance.kernel.times import utc_now
from services.models import WebhookSecret
from services.operations import Registration, approve_service, register_service, reject_service
from services.webhooks.operations import reveal_secrets, rotate_secret
from tests.services.webhooks.behaviours import answers
from tests.services.webhooks.couriers import (
    at_work,
    forget_other_tests,
    make_courier,
    make_event,
    make_payee,
    wait_until_delivered,
)
from tests.services.webhooks.receivers import Receiver, at_loopback
from tests.services.webhooks.told import DAY, Payee
from tests.support.factories import make_service

OLD, NEW = "old.example", "new.example"


def register(service, url):
    register_service(Registration(service.id, service.name, service.recipient, Asset(service.asset), url))


def payee_at(host):
    return make_payee(f"https://{host}/hook")


def secret_of(service):
    """Ask as finance staff do; there must be one secret, and no other that still signs."""
    (text,) = reveal_secrets(service.id)
    return text


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
    assert service.endpoint.secret_rotated_at is None


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
    rotate_secret(service.id)
    known = {*reveal_secrets(service.id)}
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
    (before,) = reveal_secrets(payee.id)
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
    service.endpoint.refresh_from_db()
    assert before <= service.endpoint.secret_rotated_at <= utc_now()
    assert service.endpoint.secret_rotated_reason == "The webhook URL's host was old.example, and is new.example now."

    secret_of(service)
    rotate_secret(service.id)
    service.endpoint.refresh_from_db()
    assert service.endpoint.secret_rotated_reason == "By finance staff: the previous one signs, too, for 24 hours."

    register(service, None)
    service.endpoint.refresh_from_db()
    assert service.endpoint.secret_rotated_reason == "The webhook URL's host was new.example, and is none now."


@pytest.mark.django_db
def test_the_longest_hosts_that_may_be_registered_fit_the_reason():
    long, longer = (f"https://{letter * 61}.{letter * 63}.{letter * 63}.{letter * 57}.example/" for letter in "ab")
    service = make_service(webhook_url=long)
    secret_of(service)

    register(service, longer)

    service.endpoint.refresh_from_db()
    assert len(service.endpoint.secret_rotated_reason) > 500


@pytest.mark.django_db
def test_where_nobody_knew_a_secret_no_rotation_is_kept():
    service = payee_at(OLD)

    register(service, f"https://{NEW}/hook")

    assert service.endpoint.secret_rotated_at is None


# --- While something is delivered -------------------------------------------------------------------------------------
class Hosts:
    """Two receivers over TLS, each under a name of its own, and the secrets that staff were shown for each."""

    def __init__(self, authority, *behaviours):
        self.receivers = {host: Receiver(*behaviours, tls=authority.server(host)) for host in (OLD, NEW)}
        self.shown: dict[str, set[str]] = {OLD: set(), NEW: set()}
        self.courier = make_courier(lookup=at_loopback)
        self.service = make_payee(self.url(OLD))
        self.show(OLD)

    def __enter__(self):
        for receiver in self.receivers.values():
            receiver.__enter__()
        return self

    def __exit__(self, *error):
        for receiver in self.receivers.values():
            receiver.__exit__(*error)

    def url(self, host):
        return self.receivers[host].url(host=host)

    def move(self, host):
        register(self.service, self.url(host))
        approve_service(self.service.id, by="test")
        self.show(host)

    def show(self, host):
        self.shown[host].add(secret_of(self.service))

    def signed_with(self, host):
        """Tell for each request at a host which hosts' secrets fit it."""
        return [
            {of for of, secrets in self.shown.items() if any(_verifies(secret, request) for secret in secrets)}
            for request in self.receivers[host].requests
        ]


def _verifies(secret, request):
    try:
        Webhook(secret).verify(request.body, {name.lower(): value for name, value in request.headers})
    except WebhookVerificationError:
        return False
    return True


@pytest.fixture
def authority_and_courier(settings, committed, authority):
    settings.WEBHOOKS_ALLOW_PRIVATE = True
    forget_other_tests()
    return authority


def test_what_is_under_way_to_the_host_before_is_signed_for_it_and_told_anew_to_the_new_one(authority_and_courier):
    is_moved = threading.Event()

    def hold(exchange):
        is_moved.wait(60)
        answers(200)(exchange)

    with Hosts(authority_and_courier, hold) as hosts:
        event = make_event(hosts.service)
        with at_work(hosts.courier):
            hosts.receivers[OLD].wait_for(1)
            hosts.move(NEW)
            is_moved.set()
            wait_until_delivered([event])

        assert hosts.signed_with(OLD) == [{OLD}]
        assert hosts.signed_with(NEW) == [{NEW}]


def test_a_url_that_moves_to_and_fro_while_couriers_work_never_brings_a_host_the_secret_of_another(
    authority_and_courier,
):
    is_over = threading.Event()

    def deliver(hosts):
        try:
            while not is_over.is_set():
                hosts.courier.deliver()
        finally:
            connections.close_all()

    with Hosts(authority_and_courier) as hosts, ThreadPoolExecutor(2) as pool:
        shifts = [pool.submit(deliver, hosts) for _ in range(2)]
        try:
            for number in range(12):
                host = (NEW, OLD)[number % 2]
                before = len(hosts.receivers[host].requests)
                for _ in range(random.randrange(1, 4)):
                    make_event(hosts.service)
                hosts.move(host)
                hosts.receivers[host].wait_for(before + 1)
        finally:
            is_over.set()
        for shift in shifts:
            shift.result()

        assert all(len(secrets) >= 6 for secrets in hosts.shown.values())
        for host in (OLD, NEW):
            assert len(hosts.receivers[host].requests) >= 6
            assert hosts.signed_with(host) == [{host}] * len(hosts.receivers[host].requests)

"""A webhook URL that moves to another host while events are delivered to it."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections
from standardwebhooks import Webhook, WebhookVerificationError

from services.operations import approve_service
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
from tests.support.moved_payees import register, secret_of

OLD, NEW = "old.example", "new.example"


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

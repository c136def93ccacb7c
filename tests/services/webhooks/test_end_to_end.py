"""From the row of an event to a receiver behind HTTPS and back into the log, with a clock that steps.

The courier, the database, TLS and the receiver are real; the name and the certificate authority are the test's own.
What becomes of an event whose worker is killed: test_worker.
"""

import json
import socket
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from allowance_client import verify_webhook
from allowance_client.errors import WebhookInvalid

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from policy.signer import published_keys
from services.models import Outcome, WebhookEndpoint
from services.operations import Registration, register_service
from services.webhooks.courier import Courier
from services.webhooks.operations import reveal_secrets, rotate_secret
from tests.services.webhooks.attempts import BRIEF_S, PATIENT_S
from tests.services.webhooks.authorities import Authority
from tests.services.webhooks.behaviours import answers, drips, hangs, resets, sends
from tests.services.webhooks.couriers import forget_other_tests, make_event, make_payee
from tests.services.webhooks.receivers import Receiver
from tests.services.webhooks.told import DAY, HOUR, MINUTE, SECOND, delivery_of, log_of, outcomes_of
from tests.support.factories import decide, make_agent

pytestmark = pytest.mark.django_db

HOST = "shop.example"
MOMENT = timedelta(microseconds=1)
OK = b"HTTP/1.1 200 OK\r\n"


class Shop:
    """A payee whose receiver speaks TLS, and the courier that serves it at moments of the test's own."""

    def __init__(self, receiver):
        self.receiver = receiver
        self.service = make_payee(receiver.url(host=HOST))
        self.addresses = ["127.0.0.1"]
        # A minute ahead: what is written from here on is due.
        self.now = utc_now() + MINUTE

    async def lookup(self, host, port):
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.addresses

    def hear(self):
        return make_event(self.service)

    def deliver(self, *, after=0 * SECOND, timeout_s=PATIENT_S):
        """Let time pass, then a courier deliver what is due; returns how many attempts it made."""
        self.now += after
        courier = Courier(
            lookup=self.lookup, allow_loopback=True, clock=lambda: self.now, chance=lambda: 0.5, timeout_s=timeout_s
        )
        return courier.deliver()

    def ids(self):
        return [request.header("webhook-id") for request in self.receiver.requests]

    def fits(self, secret):
        """List the kinds of signatures that fit the latest request."""
        request = self.receiver.requests[-1]
        headers = {name.lower(): value for name, value in request.headers}
        fitting = []
        means: dict[str, dict[str, Any]] = {"v1": {"secret": secret}, "v1a": {"keys": published_keys()}}
        for kind, by in means.items():
            with suppress(WebhookInvalid):
                verify_webhook(headers, request.body, service=self.service.id, **by)
                fitting.append(kind)
        return tuple(fitting)


@pytest.fixture
def open_shop(db, authority):
    forget_other_tests()

    @contextmanager
    def make(*behaviours):
        with Receiver(*behaviours, tls=authority.server(HOST)) as receiver:
            yield Shop(receiver)

    return make


def test_a_payment_is_told_over_https_signed_both_ways_and_logged(open_shop):
    with open_shop(answers(200, b"Thanks")) as shop:
        entry = decide(make_agent(), shop.service, "1.25")

        assert shop.deliver() == 1

        (request,) = shop.receiver.requests
        (secret,) = reveal_secrets(shop.service.id, by="ann")
        assert shop.fits(secret) == ("v1", "v1a")
        assert (request.server_name, request.path) == (HOST, "/hook")
        event = json.loads(request.body)
        assert (event["id"], event["type"]) == (request.header("webhook-id"), "payment.approved")
        assert (event["data"]["paymentId"], event["data"]["amount"]) == (entry.payment_id, "1.25")
        (attempt,) = log_of(event["id"])
        assert (attempt.outcome, attempt.status, attempt.answer) == ("delivered", 200, "Thanks")
        assert delivery_of(event["id"]).state == "delivered"
        assert shop.deliver(after=30 * DAY) == 0


# --- Each kind of failure, and the next attempt -----------------------------------------------------------------------
def behaves(*behaviours):
    return lambda shop: shop.receiver.behave(*behaviours)


def is_at(*addresses):
    """Let the name lead elsewhere. At 127.0.0.2 nobody has the receiver's port."""
    return lambda shop: setattr(shop, "addresses", list(addresses))


def shows(make_tls):
    return lambda shop: shop.receiver.certify(make_tls())


def _elsewhere(shop):
    # Somebody who followed it would be welcome there.
    location = ("Location", shop.receiver.url("/elsewhere", host=HOST))
    shop.receiver.behave(answers(302, b"", location), answers(200))


# What is wrong, as what it is logged, with which status, and whether the request has arrived.
FAILURES = {
    "refused": (is_at("127.0.0.2"), Outcome.CONNECTION, None, False),
    "reset": (behaves(resets), Outcome.CONNECTION, None, True),
    "not http": (behaves(sends(b"SSH-2.0-OpenSSH_9.9\r\n")), Outcome.CONNECTION, None, True),
    "silent": (behaves(hangs()), Outcome.TIMEOUT, None, True),
    "drips headers": (behaves(drips(OK, b"X: y\r\n")), Outcome.TIMEOUT, None, True),
    "drips a body": (behaves(drips(OK + b"Content-Length: 99999\r\n\r\n", b"y")), Outcome.TIMEOUT, 200, True),
    "500": (behaves(answers(500)), Outcome.STATUS, 500, True),
    "404": (behaves(answers(404)), Outcome.STATUS, 404, True),
    "302": (_elsewhere, Outcome.STATUS, 302, True),
    "unknown authority": (shows(lambda: Authority().server(HOST)), Outcome.TLS, None, False),
    "no such name": (is_at(), Outcome.DNS, None, False),
    "a name that leads inside": (is_at("10.0.0.1"), Outcome.BLOCKED_ADDRESS, None, False),
}


@pytest.mark.parametrize("name", FAILURES)
def test_an_event_is_told_five_seconds_after_a_failure_of_each_kind(name, open_shop, authority):
    break_it, outcome, status, has_arrived = FAILURES[name]
    with open_shop() as shop:
        event = shop.hear()
        break_it(shop)

        assert shop.deliver(timeout_s=BRIEF_S if outcome == Outcome.TIMEOUT else PATIENT_S) == 1

        assert [(one.outcome, one.status) for one in log_of(event)] == [(outcome, status)]
        assert shop.ids() == [event] * has_arrived
        _repair(shop, authority)
        assert shop.deliver(after=5 * SECOND - MOMENT) == 0
        assert shop.deliver(after=MOMENT) == 1
        assert outcomes_of(event) == [outcome, Outcome.DELIVERED]
        assert shop.ids() == [event] * (1 + has_arrived)
        assert {request.path for request in shop.receiver.requests} == {"/hook"}
        assert delivery_of(event).state == "delivered"


@pytest.mark.parametrize("fault", ["another name", "expired"])
def test_a_certificate_that_is_wrong_is_told_nothing_until_it_is_renewed(fault, open_shop, authority):
    wrong = {
        "another name": lambda: authority.server("other.example"),
        "expired": lambda: authority.server(HOST, is_expired=True),
    }
    with open_shop() as shop:
        event = shop.hear()
        shop.receiver.certify(wrong[fault]())
        shop.deliver()
        assert shop.ids() == []

        _repair(shop, authority)
        shop.deliver(after=5 * SECOND)

        assert outcomes_of(event) == [Outcome.TLS, Outcome.DELIVERED]
        assert shop.ids() == [event]


def _repair(shop, authority):
    shop.receiver.behave(answers(200))
    shop.receiver.certify(authority.server(HOST))
    shop.addresses = ["127.0.0.1"]


# --- What follows from answers ----------------------------------------------------------------------------------------
def test_what_never_succeeds_is_attempted_ten_times_as_the_contract_has_it(open_shop):
    with open_shop(answers(503)) as shop:
        event = shop.hear()
        assert shop.deliver() == 1

        for delay_s in (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400):
            assert shop.deliver(after=delay_s * SECOND - MOMENT) == 0
            assert shop.deliver(after=MOMENT) == 1

        assert delivery_of(event).state == "failed"
        assert shop.deliver(after=365 * DAY) == 0
        assert shop.ids() == [event] * 10


def test_a_receiver_that_asks_for_an_hour_has_it_for_all_its_events(open_shop):
    with open_shop(answers(429, b"", ("Retry-After", "3600")), answers(200)) as shop:
        first = shop.hear()
        assert shop.deliver() == 1
        second = shop.hear()

        assert shop.deliver(after=HOUR - MOMENT) == 0
        assert shop.deliver(after=MOMENT) == 2

        assert sorted(shop.ids()[1:]) == sorted([first, second])
        assert outcomes_of(first) == [Outcome.STATUS, Outcome.DELIVERED]


def test_a_receiver_that_is_gone_is_told_nothing_until_its_service_registers_again(open_shop):
    with open_shop(answers(410), answers(200)) as shop:
        first, second = shop.hear(), shop.hear()
        assert shop.deliver() == 1
        assert shop.deliver(after=30 * DAY) == 0
        assert WebhookEndpoint.objects.get(pk=shop.service.id).disabled_reason == "It answered 410 Gone."

        service = shop.service
        register_service(
            Registration(service.id, service.name, service.recipient, Asset(service.asset), service.webhook_url)
        )

        assert shop.deliver() == 2
        assert shop.ids()[0] == first
        assert sorted(shop.ids()[1:]) == sorted([first, second])


def test_an_event_that_fails_does_not_hold_a_later_one_back(open_shop):
    with open_shop(answers(500), answers(200)) as shop:
        first, second = shop.hear(), shop.hear()

        assert shop.deliver() == 2
        assert (delivery_of(first).state, delivery_of(second).state) == ("waiting", "delivered")

        assert shop.deliver(after=5 * SECOND) == 1
        assert shop.ids() == [first, second, first]
        assert delivery_of(first).state == "delivered"


def test_a_rotated_secret_fits_for_a_day_beside_the_new_one(open_shop):
    with open_shop() as shop:
        (old,) = reveal_secrets(shop.service.id, by="ann")
        rotate_secret(shop.service.id, by="ann")
        new, _ = reveal_secrets(shop.service.id, by="ann")

        shop.hear()
        shop.deliver(after=23 * HOUR)
        assert (shop.fits(old), shop.fits(new)) == (("v1", "v1a"), ("v1", "v1a"))

        shop.hear()
        shop.deliver(after=HOUR)
        assert (shop.fits(old), shop.fits(new)) == (("v1a",), ("v1", "v1a"))

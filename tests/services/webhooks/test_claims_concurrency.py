"""Claims about workers that act at once, on real connections with real commits."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from django.db import connection, transaction

from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from services.models import Service, WebhookAttempt, WebhookDelivery, WebhookEndpoint
from services.operations import approve_service
from services.webhooks.claims import AT_ONCE, AT_ONCE_ON_TRIAL, claim_deliveries
from services.webhooks.endpoints import enable_endpoint
from services.webhooks.operations import (
    replay_since,
    reveal_secrets,
    rotate_secret,
    send_again,
    send_test_event,
)
from services.webhooks.signing_secrets import as_text
from tests.services.webhooks.told import GONE, HOUR, MINUTE, REFUSED, SECOND, Payee, new_era, record, result_of
from tests.support.kills import wait_until
from tests.support.scenes import at_once, is_waited_for

pytestmark = pytest.mark.usefixtures("committed")

_HALT = 4242


def claim_without_patience(at):
    """Claim, and fail if that has to wait for a lock."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '2s'")
    return claim_deliveries(1000, at)


def in_flight(payee):
    return WebhookDelivery.objects.filter(endpoint=payee.id, claim__isnull=False).count()


# --- Claims beside claims ---------------------------------------------------------------------------------------------
def test_of_many_workers_none_claims_what_another_has_nor_more_than_an_endpoint_gets_at_once():
    at = new_era()
    payees = [Payee(at, works=number < 6) for number in range(8)]
    for payee in payees:
        payee.hear(10, at=at - MINUTE)
    limits = {payee.id: AT_ONCE if number < 6 else AT_ONCE_ON_TRIAL for number, payee in enumerate(payees)}

    shares = at_once([lambda: [one for _ in range(10) for one in claim_deliveries(3, at)]] * 6)

    claimed = [one for share in shares for one in share] + claim_deliveries(100, at)
    assert max(Counter(one.event_id for one in claimed).values()) == 1
    assert Counter(one.endpoint_id for one in claimed) == limits


def test_workers_that_share_an_endpoint_attempt_each_event_once_and_never_too_many_at_once():
    payee = Payee(works=True)
    events = payee.hear(60, at=payee.at - HOUR)

    def work():
        most = 0
        while WebhookDelivery.objects.filter(endpoint=payee.id, state="waiting").exists():
            claimed = claim_deliveries(3, payee.at)
            most = max(most, in_flight(payee))
            record(payee.at, *(result_of(one, payee.at) for one in claimed))
        return most

    assert max(at_once([work] * 4)) <= AT_ONCE
    attempts = WebhookAttempt.objects.filter(endpoint=payee.id)
    assert sorted(attempts.values_list("delivery", flat=True)) == sorted(events)
    assert {*attempts.values_list("outcome", flat=True)} == {"delivered"}


def test_an_endpoint_that_somebody_holds_is_passed_over():
    at = new_era()
    held, free = Payee(at), Payee(at)
    for payee in (held, free):
        payee.hear(at=at - SECOND)

    with transaction.atomic():
        WebhookEndpoint.objects.select_for_update().get(pk=held.id)
        (claimed,) = at_once([lambda: claim_without_patience(at)])

    assert [one.endpoint_id for one in claimed] == [free.id]
    assert len(held.claim()) == 1


def test_a_delivery_that_somebody_holds_is_passed_over():
    payee = Payee()
    held, free = payee.hear(2, at=payee.at - MINUTE)

    with transaction.atomic():
        WebhookDelivery.objects.select_for_update().get(pk=held)
        (claimed,) = at_once([lambda: claim_without_patience(payee.at)])

    assert [one.event_id for one in claimed] == [free]


def test_claiming_waits_for_no_payment_and_no_registration():
    at = new_era()
    payee, other = Payee(at), Payee(at)
    other.hear(at=at - SECOND)

    with transaction.atomic():
        payee.hear(at=at - SECOND)
        payee.register_again("https://moved.example/hook")
        (claimed,) = at_once([lambda: claim_without_patience(at)])

    assert [one.endpoint_id for one in claimed] == [other.id]


# --- Who waited sees what is, not what was ----------------------------------------------------------------------------
def beside_a_registration(payee, act):
    """Act while a registration with another URL is under way; returns what comes of it after that."""
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            payee.register_again("https://moved.example/hook")
            future = pool.submit(lambda: at_once([act])[0])
            wait_until(is_waited_for, "it waits for the registration")
        return future.result()


def test_a_result_that_waited_for_a_registration_says_nothing_of_the_new_url():
    payee = Payee()
    payee.hear()
    (claimed,) = payee.claim()

    beside_a_registration(payee, lambda: record(payee.at, result_of(claimed, payee.at, **GONE)))

    assert (payee.endpoint.disabled_at, payee.endpoint.failing_since) == (None, None)


def test_a_claim_that_began_before_a_registration_tells_the_earlier_url_nothing():
    payee = Payee(works=True)
    payee.hear()

    def claim():
        with connection.execute_wrapper(halt):
            return payee.claim()

    with connection.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("SELECT pg_advisory_lock(%s)", [_HALT])
        claiming = pool.submit(closing, claim)
        wait_until(is_waited_for, "the claim halts")
        payee.register_again("https://moved.example/hook")
        cursor.execute("SELECT pg_advisory_unlock(%s)", [_HALT])

        assert claiming.result() == []


def test_a_claim_that_began_before_a_move_to_another_host_has_the_new_url_and_the_new_secret():
    payee = Payee(works=True)
    payee.hear()
    (before,) = reveal_secrets(payee.id, by="ann")

    def claim():
        with connection.execute_wrapper(halt):
            return payee.claim(utc_now())

    with connection.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("SELECT pg_advisory_lock(%s)", [_HALT])
        claiming = pool.submit(closing, claim)
        wait_until(is_waited_for, "the claim halts")
        payee.register_again("https://moved.example/hook")
        approve_service(payee.id, by="test")
        (after,) = reveal_secrets(payee.id, by="ann")
        cursor.execute("SELECT pg_advisory_unlock(%s)", [_HALT])
        claimed = claiming.result() or payee.claim(utc_now())

    assert before != after
    assert [(one.url, [as_text(secret) for secret in one.secrets]) for one in claimed] == [
        ("https://moved.example/hook", [after])
    ]


def halt(execute, sql, params, many, context):
    """Let the choice of endpoints wait once it has looked, before it locks any."""
    if "SKIP LOCKED" in sql and "services_service" in sql:
        sql = sql.replace(" WHERE ", f" WHERE (SELECT pg_advisory_xact_lock_shared({_HALT}))::text = '' AND ", 1)
    return execute(sql, params, many, context)


def closing(act):
    try:
        return act()
    finally:
        connection.close()


def test_staff_who_waited_for_a_registration_are_told_that_the_service_is_pending():
    payee = Payee()

    with pytest.raises(OperationRefused, match="pending_approval"):
        beside_a_registration(payee, lambda: send_test_event(payee.id, by="ann"))


def test_results_take_their_endpoints_in_one_order_so_that_workers_never_wait_in_a_circle():
    at = new_era()
    payees = [Payee(at) for _ in range(6)]
    for payee in payees:
        payee.hear()
    results = [result_of(one, at) for one in claim_deliveries(100, at)]
    first, *others = sorted(payee.id for payee in payees)

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            WebhookEndpoint.objects.select_for_update().get(pk=first)
            future = pool.submit(lambda: at_once([lambda: record(at, *results)]))
            wait_until(is_waited_for, "it waits for the first endpoint")
            # Who waits for the first has none of the others.
            free = WebhookEndpoint.objects.select_for_update(nowait=True).filter(pk__in=others)
            assert len(list(free)) == 5
        future.result()


# --- Everything at once -----------------------------------------------------------------------------------------------
class Storm:
    """Payees, and what happens to them: each method is a thread. `seed` chooses what, though not in which order."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.era = new_era()
        self.payees = [Payee(self.era, works=True) for _ in range(4)]
        self.ids = {payee.id for payee in self.payees}
        self.events = [event for payee in self.payees for event in payee.hear(15)]

    def work(self):
        for _ in range(30):
            now = utc_now()
            claimed = [one for one in claim_deliveries(16, now) if one.endpoint_id in self.ids]
            self.random.shuffle(claimed)
            results = self.random.choices(({}, REFUSED, GONE), (8, 3, 1), k=len(claimed))
            record(now, *(result_of(one, now, **result) for one, result in zip(claimed, results, strict=True)))

    def administer(self):
        for _ in range(30):
            act = self.random.choice((enable_endpoint, send_test_event, rotate_secret, reveal_secrets))
            self._try(act, self.random.choice(self.payees).id, by="ann")
            self._try(send_again, self.random.choice(self.events), by="ann")
            self._try(replay_since, self.random.choice(self.payees).id, self.era, by="ann")

    def register(self):
        for number in range(20):
            payee = self.random.choice(self.payees)
            payee.register_again(f"https://{number % 2}.example/hook")
            self._try(approve_service, payee.id, by="test")

    def pay(self):
        for _ in range(20):
            with transaction.atomic():
                for payee in self.random.sample(self.payees, 3):
                    payee.hear()

    def calm(self):
        """Let every endpoint be enabled, and all that waits be due and nobody's."""
        Service.objects.filter(pk__in=self.ids).update(status="approved")
        for payee in self.payees:
            payee.register_again(payee.endpoint.service.webhook_url)
        self.deliveries().filter(state="waiting").update(next_attempt_at=self.era, claim=None, claimed_until=None)

    def deliveries(self):
        return WebhookDelivery.objects.filter(endpoint__in=self.ids)

    @staticmethod
    def _try(act, *arguments, **options):
        with suppress(OperationRefused):
            act(*arguments, **options)


def test_workers_staff_payees_and_payments_at_once_end_without_an_error_and_nothing_is_stuck():
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it if this fails
    storm = Storm(seed)

    at_once([storm.work] * 3 + [storm.administer] * 2 + [storm.register, storm.pay])

    storm.calm()
    while claimed := claim_deliveries(100, storm.era):
        record(storm.era, *(result_of(one, storm.era) for one in claimed))
    assert {*storm.deliveries().values_list("state", flat=True)} <= {"delivered", "failed"}

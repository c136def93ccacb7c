"""A worker that stalls while it holds an endpoint keeps nobody else waiting for long."""

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import pytest
from django.db import connection, transaction

from foundation.database import brief_transaction
from services.models import WebhookEndpoint
from tests.crash.installation import wait_until
from tests.services.webhooks.told import Payee
from tests.support.factories import decide, make_agent
from tests.support.scenes import at_once, is_waited_for

pytestmark = pytest.mark.usefixtures("committed")


def read_limit() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        return str(cursor.fetchone()[0])


def test_the_database_ends_a_brief_transaction_whose_process_stalls_and_no_other():
    with brief_transaction():
        assert read_limit() == "10s"
    with transaction.atomic():
        assert read_limit() == "0"


def test_payments_do_not_wait_for_a_registration_that_waits_for_an_endpoint():
    payee, agent = Payee(works=True), make_agent()
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            WebhookEndpoint.objects.select_for_update(no_key=True).get(pk=payee.id)
            registration = pool.submit(register_again, payee)
            wait_until(is_waited_for, "the registration waits for the endpoint")

            (entry,) = at_once([lambda: decide(agent, payee.service)])

            assert entry.result == "approved"
        registration.result()


def test_payments_do_not_wait_while_earlier_events_get_their_deliveries():
    payee, agent = Payee(works=True), make_agent()
    give = import_module("services.migrations.0003_earlier_events").GIVE_DELIVERIES
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(give)

        (entry,) = at_once([lambda: decide(agent, payee.service)])

        assert entry.result == "approved"


def register_again(payee: Payee) -> None:
    try:
        payee.register_again()
    finally:
        connection.close()

"""What the console shows of deliveries and of the log of attempts."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation.console.paging import CappedPaginator
from foundation.kernel.times import utc_now
from foundation.recent import Recent
from payments.deciding.approval_events import EVENT_OF_APPROVAL
from payments.deciding.payment_events import EVENT_OF_STATUS
from services.admin.deliveries import EVENT_TYPES
from services.models import WebhookDelivery
from services.webhooks.trial_events import TEST_EVENT
from tests.foundation.console.conftest import Person, address
from tests.support.webhook_rows import make_attempt, make_delivery, make_endpoint

ENDPOINT, DELIVERY, ATTEMPT = "services_webhookendpoint", "services_webhookdelivery", "services_webhookattempt"
HOUR = timedelta(hours=1)


def page_of(person: Person, model: str, **query: str) -> str:
    page: str = person.get(f"{model}_changelist", **query).content.decode()
    return page


# --- Deliveries -------------------------------------------------------------------------------------------------------
def test_every_type_of_event_can_be_filtered_for():
    assert set(EVENT_TYPES) == {*EVENT_OF_STATUS.values(), *EVENT_OF_APPROVAL.values(), TEST_EVENT}


@pytest.mark.parametrize(
    ("query", "is_shown"),
    [
        ({"state__exact": "failed"}, True),
        ({"state__exact": "waiting"}, False),
        ({"type": "payment.failed"}, True),
        ({"type": "payment.settled"}, False),
        ({"by_hand": "yes"}, True),
        ({"by_hand": "no"}, False),
        ({"overdue": "yes"}, False),
    ],
)
def test_deliveries_are_filtered(auditor, db, query, is_shown):
    delivery = make_delivery(make_endpoint(), event_type="payment.failed", state="failed", is_by_hand=True)

    page = page_of(auditor, DELIVERY, **query, q=delivery.endpoint_id)

    assert (delivery.pk in page) is is_shown


@pytest.mark.parametrize("member", ["pk", "endpoint_id"])
def test_a_delivery_is_found_by_its_event_and_its_service(auditor, db, member):
    delivery, other = make_delivery(make_endpoint()), make_delivery(make_endpoint())

    page = page_of(auditor, DELIVERY, q=getattr(delivery, member))

    assert delivery.pk in page
    assert other.pk not in page


def test_a_delivery_in_the_list_tells_of_its_attempts_and_the_last_answer(auditor, db):
    delivery = make_delivery(make_endpoint(), attempts=3, next_attempt_at=utc_now() + HOUR)
    make_attempt(delivery, outcome="status", status=418), make_attempt(delivery, outcome="status", status=503)

    page = page_of(auditor, DELIVERY, q=delivery.pk)

    assert '<td class="field-attempts">3</td>' in page
    assert '<td class="field-last_answer">503</td>' in page
    assert f"{delivery.next_attempt_at:%Y-%m-%d %H:%M:%S}" in page


@pytest.mark.parametrize(("outcome", "status"), [("dns", None), ("timeout", 200)])
def test_where_no_answer_came_in_time_the_list_names_what_went_wrong(auditor, db, outcome, status):
    delivery = make_delivery(make_endpoint())
    make_attempt(delivery, outcome=outcome, status=status)

    page = page_of(auditor, DELIVERY, q=delivery.pk)

    assert f'<td class="field-last_answer"><span class="badge {outcome}">{outcome}</span></td>' in page


def test_the_page_of_a_delivery_shows_the_event_and_every_attempt(auditor, db):
    delivery = make_delivery(make_endpoint(), payload='{"data":{"reason":"<b>for you</b>"}}')
    make_attempt(delivery, duration_ms=1234, answer="thanks")
    make_attempt(delivery, outcome="blocked_address", status=None, detail="It leads to 10.0.0.1.", is_by_hand=True)

    page = auditor.get(f"{DELIVERY}_change", delivery.pk).content.decode()

    assert "  &quot;data&quot;: {\n    &quot;reason&quot;: &quot;&lt;b&gt;for you&lt;/b&gt;&quot;" in page
    log = page.partition('id="log-group"')[2]
    blocked, _, delivered = log.partition('class="badge delivered"')
    for shown in ("blocked address", "It leads to 10.0.0.1.", "by hand"):
        assert shown in blocked
    for shown in ("1.234 s", "200", "by schedule", "thanks"):
        assert shown in delivered


# --- Attempts ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fields", "query", "is_shown"),
    [
        ({"outcome": "status", "status": 503}, {"outcome": "status"}, True),
        ({"outcome": "status", "status": 503}, {"outcome": "failure"}, True),
        ({"outcome": "status", "status": 503}, {"outcome": "tls"}, False),
        ({"outcome": "status", "status": 503}, {"status": "5"}, True),
        ({"outcome": "status", "status": 503}, {"status": "4"}, False),
        ({"outcome": "status", "status": 499}, {"status": "4"}, True),
        ({}, {"outcome": "failure"}, False),
        ({}, {"status": "2"}, True),
        ({"outcome": "timeout", "status": 200}, {"status": "2"}, True),
        ({"outcome": "dns", "status": None}, {"status": "none"}, True),
        ({}, {"status": "none"}, False),
        ({}, {"by_hand": "yes"}, False),
        ({"is_by_hand": True}, {"by_hand": "yes"}, True),
        ({}, {"started_at__gte": f"{utc_now() - HOUR}"}, True),
        ({"started_at": utc_now() - 2 * HOUR}, {"started_at__gte": f"{utc_now() - HOUR}"}, False),
    ],
)
def test_attempts_are_filtered(auditor, db, fields, query, is_shown):
    attempt = make_attempt(make_delivery(make_endpoint()), **fields)

    page = page_of(auditor, ATTEMPT, **query, q=attempt.delivery_id)

    assert (address(f"{ATTEMPT}_change", str(attempt.pk)) in page) is is_shown


@pytest.mark.parametrize("member", ["delivery_id", "endpoint_id"])
def test_an_attempt_is_found_by_its_event_and_its_service(auditor, db, member):
    attempt, other = (make_attempt(make_delivery(make_endpoint())) for _ in range(2))

    page = page_of(auditor, ATTEMPT, q=getattr(attempt, member))

    assert attempt.delivery_id in page
    assert other.delivery_id not in page


STRANGE = "\u202egnp.exe <script>alert(1)</script> & \x1b[31mred\x07\r\nsecond line"
SHOWN = "\\u202egnp.exe &lt;script&gt;alert(1)&lt;/script&gt; &amp; \\x1b[31mred\\x07\nsecond line"


def test_what_a_stranger_answers_is_shown_as_text_that_does_nothing(auditor, db):
    attempt = make_attempt(make_delivery(make_endpoint()), outcome="status", status=500, answer=STRANGE, detail=STRANGE)

    shown = [
        auditor.get(f"{ATTEMPT}_change", str(attempt.pk)).content.decode(),
        auditor.get(f"{DELIVERY}_change", attempt.delivery_id).content.decode(),
        page_of(auditor, ATTEMPT, q=attempt.delivery_id),
    ]

    assert [f'<pre dir="auto">{SHOWN}</pre>' in page for page in shown] == [True, True, False]
    for page in shown:
        assert "\\u202egnp.exe &lt;script&gt;" in page
        assert not {"\u202e", "\x1b", "\x07"} & set(page)
        assert "<script>alert" not in page


def test_the_page_of_an_attempt_shows_where_it_went_and_the_whole_answer(auditor, db):
    answer = "x" * 2047 + "!"
    attempt = make_attempt(make_delivery(make_endpoint(url="https://a.example/hook")), answer=answer)

    page = auditor.get(f"{ATTEMPT}_change", str(attempt.pk)).content.decode()

    assert answer in page
    assert ">https://a.example/hook</code>" in page


# --- Many rows --------------------------------------------------------------------------------------------------------
def add_rows(count: int) -> list[Any]:
    """Make that many of each, a second after each other; ids of one millisecond have no order."""
    now = utc_now()
    moments = [now + number * timedelta(seconds=1) for number in range(count)]
    return [make_attempt(make_delivery(make_endpoint(), at=moment)) for moment in moments]


@pytest.mark.parametrize("model", [ENDPOINT, DELIVERY, ATTEMPT])
def test_a_list_asks_no_question_per_row(auditor, db, model):
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            page_of(auditor, model)
        return len(queries)

    add_rows(1)
    count()  # what is asked once per process
    few = count()
    add_rows(5)

    assert count() == few


@pytest.mark.parametrize("model", [DELIVERY, ATTEMPT])
def test_a_long_list_is_shown_newest_first_without_counting_all_of_it(auditor, db, model, monkeypatch):
    monkeypatch.setattr(CappedPaginator, "count_limit", 2)
    monkeypatch.setattr(Recent, "kept_for_s", 60)  # what stands on every page is counted once in a while
    page_of(auditor, model)
    newest = [attempt.delivery_id for attempt in add_rows(3)][::-1]

    with CaptureQueriesContext(connection) as queries:
        page = page_of(auditor, model)

    counts = [query["sql"] for query in queries if "COUNT(*)" in query["sql"]]
    assert [sql for sql in counts if "LIMIT 2" not in sql] == []
    assert re.findall(r">(evt_\w+)<", page)[:2] == newest[:2]
    assert "Search or filter to see others." in page


def test_the_page_of_a_delivery_that_was_sent_again_and_again_shows_the_newest_attempts(auditor, db):
    delivery = make_delivery(make_endpoint())
    for number in range(53):
        make_attempt(delivery, answer=f"answer-{number}.")

    page = auditor.get(f"{DELIVERY}_change", delivery.pk).content.decode()

    assert re.findall(r"answer-(\d+)\.", page) == [str(number) for number in reversed(range(3, 53))]
    assert f'href="{address(f"{ATTEMPT}_changelist")}?q={delivery.pk}"' in page
    assert WebhookDelivery.objects.get(pk=delivery.pk).log.count() == 53

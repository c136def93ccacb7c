"""What the console shows of webhook endpoints, and what it warns of."""

import itertools
import re
from datetime import timedelta
from typing import Any

import pytest

from foundation.kernel.times import utc_now
from services.models import Service, WebhookEndpoint
from services.webhooks.queries import EndpointState, in_state, state_of
from tests.foundation.console.conftest import Person, address
from tests.support.factories import make_service
from tests.support.webhook_rows import make_delivery, make_endpoint

ENDPOINT, DELIVERY = "services_webhookendpoint", "services_webhookdelivery"
DISABLED: dict[str, Any] = {"disabled_at": utc_now(), "disabled_reason": "It answered 410 Gone."}
HOUR = timedelta(hours=1)


def page_of(person: Person, model: str, **query: str) -> str:
    page: str = person.get(f"{model}_changelist", **query).content.decode()
    return page


# --- Endpoints --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "new"),
        ({"succeeded_at": utc_now()}, "working"),
        ({"succeeded_at": utc_now(), "failing_since": utc_now()}, "failing"),
        ({"failing_since": utc_now(), **DISABLED}, "disabled"),
    ],
)
def test_an_endpoint_has_a_badge_and_is_found_by_its_state(auditor, db, fields, state):
    endpoint = make_endpoint(**fields)
    others = [other for other in EndpointState if other != state]

    assert f'class="badge endpoint {state}"' in page_of(auditor, ENDPOINT, q=endpoint.pk, state=state)
    assert f'class="badge endpoint {state}"' in auditor.get(f"{ENDPOINT}_change", endpoint.pk).content.decode()
    for other in others:
        assert "0 webhook endpoints" in page_of(auditor, ENDPOINT, q=endpoint.pk, state=other)


@pytest.mark.parametrize("change", [{"status": "disabled"}, {"webhook_url": None}])
def test_an_endpoint_that_is_not_told_anything_is_unserved(auditor, db, change):
    endpoint = make_endpoint(**DISABLED)
    Service.objects.filter(pk=endpoint.pk).update(**change)

    assert 'class="badge endpoint unserved"' in page_of(auditor, ENDPOINT, q=endpoint.pk, state="unserved")


def test_the_filter_by_state_agrees_with_the_badge_whatever_is_true_of_an_endpoint(db):
    times = (None, utc_now())
    for status, url, disabled, failing, succeeded in itertools.product(
        ("approved", "disabled"), ("https://hooks.example.com", None), ({}, DISABLED), times, times
    ):
        endpoint = make_endpoint(failing_since=failing, succeeded_at=succeeded, **disabled)
        Service.objects.filter(pk=endpoint.pk).update(status=status, webhook_url=url)
        rows = WebhookEndpoint.objects.filter(pk=endpoint.pk)

        found = [state for state in EndpointState if rows.filter(in_state(state)).exists()]

        assert found == [state_of(rows.select_related("service").get())]


def test_the_list_of_endpoints_tells_where_why_since_when_and_how_much(auditor, db):
    since = utc_now() - 30 * HOUR
    endpoint = make_endpoint(url="https://hooks.example.com/?a=1&b=2", failing_since=since, **DISABLED)
    oldest = make_delivery(endpoint, at=utc_now() - 5 * HOUR)
    make_delivery(endpoint), make_delivery(endpoint, state="failed"), make_delivery(endpoint, state="delivered")

    for page in (page_of(auditor, ENDPOINT, q=endpoint.pk), auditor.get(f"{ENDPOINT}_change", endpoint.pk)):
        html = page if isinstance(page, str) else page.content.decode()
        assert ">https://hooks.example.com/?a=1&amp;b=2</code>" in html
        assert "It answered 410 Gone." in html
        assert f"{since:%Y-%m-%d %H:%M:%S}" in html
        assert f"{oldest.event.created_at:%Y-%m-%d %H:%M:%S}" in html
        assert f'q={endpoint.pk}&amp;state__exact=waiting">2</a>' in html
        assert f'q={endpoint.pk}&amp;state__exact=failed">1</a>' in html


def test_an_endpoint_is_found_by_a_part_of_its_services_id(auditor, db):
    endpoint, other = make_endpoint(), make_endpoint()

    page = page_of(auditor, ENDPOINT, q=endpoint.pk[3:])

    assert address(f"{ENDPOINT}_change", endpoint.pk) in page
    assert address(f"{ENDPOINT}_change", other.pk) not in page


def totals(person: Person) -> dict[str, int]:
    found = re.findall(r"<b>(\d+)</b> (\w+)", page_of(person, ENDPOINT))
    return {{"delivery": "deliveries"}.get(word, word): int(number) for number, word in found}


def test_the_list_of_endpoints_begins_with_how_many_wait_fail_or_are_disabled(auditor, db):
    before = totals(auditor)
    make_endpoint(**DISABLED), make_endpoint(failing_since=utc_now())
    endpoint = make_endpoint(succeeded_at=utc_now())
    make_delivery(endpoint), make_delivery(endpoint, state="failed"), make_delivery(endpoint, state="delivered")

    after = totals(auditor)

    more = {word: after[word] - before.get(word, 0) for word in ("disabled", "failing", "deliveries", "failed")}
    assert more == {"disabled": 1, "failing": 1, "deliveries": 1, "failed": 1}


# --- The front page ---------------------------------------------------------------------------------------------------
def banner(person: Person) -> str:
    page: str = person.get("index").content.decode()
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def quiet_down() -> None:
    """Take back, for this test, what others left that somebody has to look at."""
    WebhookEndpoint.objects.update(disabled_at=None, disabled_reason="", failing_since=None, served_at=utc_now())


def test_the_front_page_is_silent_about_webhooks_that_go_well(auditor, db):
    make_delivery(make_endpoint(succeeded_at=utc_now()))
    quiet_down()

    assert "Webhooks:" not in banner(auditor)


def test_the_front_page_warns_of_what_is_disabled_failing_or_overdue(auditor, db):
    quiet_down()
    make_endpoint(**DISABLED), make_endpoint(failing_since=utc_now()), make_endpoint(failing_since=utc_now())
    make_delivery(make_endpoint(), next_attempt_at=utc_now() - HOUR)

    shown = banner(auditor)

    assert "1 endpoint is disabled" in shown
    assert "2 endpoints fail" in shown
    assert "1 delivery is overdue: is the webhooks process running?" in shown


def test_a_warning_links_what_it_is_about(auditor, db):
    quiet_down()
    disabled, failing = make_endpoint(**DISABLED), make_endpoint(failing_since=utc_now())
    overdue = make_delivery(make_endpoint(), next_attempt_at=utc_now() - HOUR)
    make_delivery(make_endpoint())

    links = re.findall(r'<a href="(/console/services/webhook[^"]+\?[^"]+)"', auditor.get("index").content.decode())

    pages = [auditor.client.get(link).content.decode() for link in links]
    for page, row in zip(pages, (overdue.pk, disabled.pk, failing.pk), strict=True):
        assert len(re.findall(r'<th class="field-', page)) == 1
        assert row in page


def test_who_may_not_see_webhooks_is_not_warned_of_them(make_person):
    make_endpoint(**DISABLED)

    assert "Webhooks" not in banner(make_person())


def test_the_navigation_and_a_services_page_lead_to_its_webhooks(auditor, db):
    endpoint = make_endpoint(failing_since=utc_now())

    page = auditor.get("services_service_change", endpoint.pk).content.decode()

    assert f'<a href="{address(f"{ENDPOINT}_changelist")}">' in page
    assert 'class="badge endpoint failing"' in page
    assert address(f"{ENDPOINT}_change", endpoint.pk) in page
    assert f'href="{address(f"{DELIVERY}_changelist")}?q={endpoint.pk}"' in page


def test_the_page_of_a_service_without_a_webhook_says_so(auditor, db):
    page = auditor.get("services_service_change", make_service().id)

    assert page.status_code == 200
    assert "badge endpoint" not in page.content.decode()

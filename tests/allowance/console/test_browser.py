"""What only a real browser shows: that a person can do the work of the console, with the scripts that it loads."""

import os
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Group, User

from services.models import Service, WebhookDelivery
from services.webhooks.operations import reveal_secrets
from staff.models import AuditEntry
from tests.support.browser import CHROMIUM, Browser, open_browser
from tests.support.factories import make_service, new_name
from tests.support.servers import Servers
from tests.support.webhook_rows import make_delivery, make_endpoint

pytestmark = [
    pytest.mark.usefixtures("committed"),
    # CI installs a browser and may not go without; a newcomer's `make test` may.
    pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="Chromium is not installed"),
]


@pytest.fixture
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser
        assert browser.troubles == []  # no script of a page failed


def log_in(browser: Browser, console: str) -> None:
    user = User.objects.create_user(new_name("fiona"), password="a long enough password", is_staff=True)
    user.groups.add(Group.objects.get(name="Finance"))
    browser.visit(f"{console}/login/?next=/console/")
    browser.run(
        f"document.querySelector('#id_username').value = '{user.username}';"
        "document.querySelector('#id_password').value = 'a long enough password';"
        "document.querySelector('#login-form').submit()"
    )
    browser.wait("document.querySelector('#logout-form') && document.readyState === 'complete'")


def choose(browser: Browser, action: str) -> None:
    """Choose the first row of a list and an action for it, and let that begin."""
    browser.run("document.querySelector('input[name=_selected_action]').click()")
    browser.run(
        f"document.querySelector('select[name=action]').value = '{action}';"
        "document.querySelector('button[name=index]').click()"
    )


def test_finance_staff_approve_a_service_as_it_was_shown(browser: Browser, servers: Servers) -> None:
    service = make_service(approved=False)
    console = f"{servers.urls[0]}/console"
    log_in(browser, console)

    browser.visit(f"{console}/services/service/?q={service.id}")
    choose(browser, "approve")
    browser.wait("document.querySelector('input[name=shown]') && document.readyState === 'complete'")
    assert service.canonical_recipient in browser.run("document.body.innerText")
    browser.run("document.querySelector('input[name=shown]').form.querySelector('[type=submit]').click()")
    browser.wait(f"document.body.innerText.includes('Approved {service.id}')")

    assert Service.objects.get(pk=service.pk).status == "approved"


def test_finance_staff_are_shown_a_signing_secret_once_they_say_that_they_mean_it(
    browser: Browser, servers: Servers
) -> None:
    endpoint = make_endpoint()
    console = f"{servers.urls[0]}/console"
    log_in(browser, console)

    browser.visit(f"{console}/services/webhookendpoint/?q={endpoint.pk}")
    choose(browser, "show_secret")
    browser.wait("document.querySelector('#confirmation') && document.readyState === 'complete'")
    assert "is recorded" in browser.run("document.body.innerText")
    browser.run("document.querySelector('#confirmation [type=submit]').click()")
    browser.wait("document.querySelector('code.secret')")

    assert [browser.run("document.querySelector('code.secret').innerText")] == list(
        reveal_secrets(endpoint.pk, by="ann")
    )
    assert (
        AuditEntry.objects.filter(subject=endpoint.pk, action="webhook.secret_shown").exclude(author="ann").count() == 1
    )


def test_finance_staff_replay_what_they_were_told_the_number_of(browser: Browser, servers: Servers) -> None:
    delivery = make_delivery(make_endpoint(), state="delivered")
    console = f"{servers.urls[0]}/console"
    log_in(browser, console)

    browser.visit(f"{console}/services/webhookendpoint/?q={delivery.endpoint_id}")
    choose(browser, "replay")
    browser.wait("document.querySelector('#id_since') && document.readyState === 'complete'")
    browser.run("document.querySelector('#id_since').value = '2020-05-14T18:42'")
    browser.run("document.querySelector('#confirmation [type=submit]').click()")
    browser.wait("document.body.innerText.includes('2020-05-14T18:42:00.000Z') && document.querySelector('#id_since')")
    browser.run("document.querySelector('#confirmation [type=submit]').click()")
    browser.wait("document.body.innerText.includes('Replayed events made since 2020-05-14T18:42:00.000Z')")

    delivery.refresh_from_db()
    assert (delivery.state, delivery.is_by_hand) == ("waiting", True)


def test_finance_staff_send_a_failed_event_again(browser: Browser, servers: Servers) -> None:
    delivery = make_delivery(make_endpoint(), state="failed", attempts=10)
    console = f"{servers.urls[0]}/console"
    log_in(browser, console)

    browser.visit(f"{console}/services/webhookdelivery/?q={delivery.pk}")
    choose(browser, "send_again")
    browser.wait(f"document.body.innerText.includes('Began to send again {delivery.pk}')")

    delivery = WebhookDelivery.objects.get(pk=delivery.pk)
    assert (delivery.state, delivery.is_by_hand) == ("waiting", True)


def test_staff_who_mistype_an_address_are_told_so_and_find_back(browser: Browser, servers: Servers) -> None:
    console = f"{servers.urls[0]}/console"
    log_in(browser, console)

    browser.visit(f"{console}/services/servise/")
    assert browser.run("document.querySelector('h1').innerText") == "There is nothing here"
    assert browser.run("document.contentType") == "text/html"
    browser.run("document.querySelector('#content a.button').click()")
    browser.wait("document.querySelector('#logout-form') && document.querySelector('h1').innerText === 'Console'")


def test_the_page_of_the_api_shows_its_operations_and_loads_nothing_from_outside(
    browser: Browser, servers: Servers
) -> None:
    browser.visit(f"{servers.urls[0]}/v1/docs")
    browser.wait("document.body.innerText.includes('/v1/payments/request')")
    loaded = browser.run("performance.getEntriesByType('resource').map(entry => entry.name)")
    assert loaded
    assert [name for name in loaded if not name.startswith((servers.urls[0], "data:"))] == []

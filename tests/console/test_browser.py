"""What only a real browser shows: that a person can do the work of the console, with the scripts that it loads."""

import os
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Group, User

from services.models import Service
from tests.console.browser import CHROMIUM, Browser, open_browser
from tests.factories import make_service, new_name
from tests.servers import Servers

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


def test_finance_staff_approve_a_service_as_it_was_shown(browser: Browser, servers: Servers) -> None:
    service = make_service(approved=False)
    console = f"{servers.urls[0]}/console"
    log_in(browser, console)

    browser.visit(f"{console}/services/service/?q={service.id}")
    browser.run("document.querySelector('input[name=_selected_action]').click()")
    browser.run(
        "document.querySelector('select[name=action]').value = 'approve';"
        "document.querySelector('button[name=index]').click()"
    )
    browser.wait("document.querySelector('input[name=shown]') && document.readyState === 'complete'")
    assert service.canonical_recipient in browser.run("document.body.innerText")
    browser.run("document.querySelector('input[name=shown]').form.querySelector('[type=submit]').click()")
    browser.wait(f"document.body.innerText.includes('Approved {service.id}')")

    assert Service.objects.get(pk=service.pk).status == "approved"


def test_the_page_of_the_api_shows_its_operations_and_loads_nothing_from_outside(
    browser: Browser, servers: Servers
) -> None:
    browser.visit(f"{servers.urls[0]}/v1/docs")
    browser.wait("document.body.innerText.includes('/v1/payments/request')")
    loaded = browser.run("performance.getEntriesByType('resource').map(entry => entry.name)")
    assert loaded
    assert [name for name in loaded if not name.startswith((servers.urls[0], "data:"))] == []

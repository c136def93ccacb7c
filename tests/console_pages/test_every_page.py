"""Every page of the console can be used by everybody who works with it: light and dark, on a desktop and on a phone."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from playwright.sync_api import Page

from backoffice.models import DailyTotal
from foundation.kernel.times import utc_now
from tests.console_pages.conftest import Examiner, walk
from tests.support.browser import needs_browser, open_browser, open_page
from tests.support.factories import new_name
from tests.support.javascript import needs_node
from tests.support.one_of_everything import make_one_of_everything
from tests.support.servers import Servers

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(90), needs_browser, needs_node]


@pytest.fixture
def page(servers: Servers) -> Iterator[Page]:
    """Open the console for somebody who may do everything."""
    user = User.objects.create_superuser(new_name("ada"), password="a long enough password")
    with open_browser() as browser, open_page(browser, user, url=servers.urls[0]) as page:
        yield page


@pytest.fixture
def totals() -> Iterator[None]:
    """Let there be something to draw."""
    today = utc_now().date()
    rows = [
        DailyTotal.objects.create(
            day=today - timedelta(days=ago), agent=new_name("agent"), service=new_name("payee"), asset=asset,
            chain="eip155:31337", result="approved", rule="under_max_payment", count=1, amount=7 * ago,
        )
        for asset in ("USDC", "EURC", "SOL")
        for ago in range(1, 9)
    ]  # fmt: skip
    yield
    DailyTotal.objects.filter(pk__in=[row.pk for row in rows]).delete()


@pytest.mark.usefixtures("totals")
def test_nothing_serious_keeps_anybody_from_using_any_page_or_what_it_asks_before_something_happens(page: Page) -> None:
    make_one_of_everything()
    examiner, seen = Examiner(page), set()

    for name in walk(page):
        examiner.examine(name)
        seen.add(name)
        if name.endswith("_change"):
            _examine_what_it_asks(examiner, name)

    assert not examiner.found, examiner.report()
    lists = {f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist" for model in admin.site._registry}
    assert lists - seen == set()
    assert {"backoffice:spending", "admin:policy_agent_shadow", "admin:policy_agent_tree"} <= seen


def _examine_what_it_asks(examiner: Examiner, name: str) -> None:
    """Begin each action of the page that is open, and come back."""
    page, address = examiner.page, examiner.page.url
    asking = page.locator(".heading form button", has_text="…")
    for number in range(asking.count()):
        asking.nth(number).click()
        page.wait_for_load_state()
        examiner.examine(f"{name}: {page.title()}")
        page.goto(address)


@pytest.mark.parametrize("address", ["/console/login/", "/console/nothing-here/"])
def test_nor_the_pages_of_who_is_not_signed_in_or_mistypes(page: Page, address: str) -> None:
    if "login" in address:
        page.context.clear_cookies()
    examiner = Examiner(page)

    page.goto(address)
    examiner.examine(address)

    assert not examiner.found, examiner.report()


def test_the_keyboard_goes_through_a_page_as_it_is_read_and_shows_where_it_is(page: Page) -> None:
    page.goto("/console/policy/agent/")
    places = []
    for _ in range(40):
        page.keyboard.press("Tab")
        places.append(
            page.evaluate(
                "() => { const {y} = document.activeElement.getBoundingClientRect();"
                " const region = document.activeElement.closest('#sidebar, #bar, main')?.id ?? '';"
                " const {outlineStyle, outlineWidth} = getComputedStyle(document.activeElement);"
                " const scrolled = region === 'sidebar' ? document.getElementById(region).scrollTop : scrollY;"
                " return {region, y: y + scrolled, isShown: outlineStyle !== 'none' && outlineWidth !== '0px'}; }"
            )
        )
        if places[-1]["region"] == "content":
            break

    regions = [place["region"] for place in places]
    assert regions == sorted(regions, key=["", "sidebar", "bar", "content"].index)
    down = [place["y"] for place in places if place["region"] == "sidebar"]
    assert down == sorted(down)
    assert [place for place in places if not place["isShown"]] == []


def test_a_chosen_theme_is_kept_and_drawn_at_once(page: Page) -> None:
    page.emulate_media(color_scheme="light")
    page.goto("/console/")
    page.locator(".account summary").click()
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("document.documentElement.className") == "dark"

    page.goto("/console/policy/agent/")
    assert page.evaluate("document.documentElement.className") == "dark"
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"


def test_on_a_phone_the_pages_are_behind_a_button(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/console/")
    assert not page.locator("#sidebar").is_visible()

    page.get_by_role("button", name="Pages").click()
    page.locator("#sidebar").get_by_role("link", name="Agents").click()

    assert page.url.endswith("/console/policy/agent/")


def test_a_page_loads_only_files_of_its_own_and_runs_nothing_else(page: Page) -> None:
    response = page.goto("/console/")
    assert response
    policy = dict(part.split(" ", 1) for part in response.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["script-src"] == policy["style-src"] == "'self'"
    assert "unsafe" not in response.headers["content-security-policy"]

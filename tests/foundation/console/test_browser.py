"""What only a real browser shows: that a person can do the work of the console, with the scripts that it loads."""

import re
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.sessions.backends.db import SessionStore
from playwright.sync_api import Page, expect

from backoffice.models import DailyTotal
from foundation.kernel.times import utc_now
from policy.models import Agent, ApiKey
from services.models import Service, WebhookDelivery
from services.webhooks.operations import reveal_secrets
from staff.models import AuditEntry
from tests.support.browser import needs_browser, open_browser, open_page
from tests.support.deposits import make_deposit_aside
from tests.support.factories import make_agent, make_service, new_name
from tests.support.servers import Servers
from tests.support.sign_in import make_user, recovery_codes_of
from tests.support.webhook_rows import make_delivery, make_endpoint

pytestmark = [pytest.mark.usefixtures("committed"), needs_browser]


@pytest.fixture
def page(servers: Servers) -> Iterator[Page]:
    """Open the console for somebody of Finance."""
    user = User.objects.create_user(new_name("fiona"), password="a long enough password", is_staff=True)
    user.groups.add(Group.objects.get(name="Finance"))
    with open_browser() as browser, open_page(browser, user, url=servers.urls[0]) as page:
        yield page


def choose(page: Page, address: str, action: str) -> None:
    """Choose the first row of a list and an action for it, and let that begin."""
    page.goto(address)
    page.locator("input[name=_selected_action]").first.check()
    page.locator("select[name=action]").select_option(action)
    page.get_by_role("button", name="Go", exact=True).click()


def confirm(page: Page) -> None:
    page.locator("main form button[type=submit].primary").click()


def test_finance_staff_approve_a_service_as_it_was_shown(page: Page, servers: Servers) -> None:
    service = make_service(approved=False)

    choose(page, f"/console/services/service/?q={service.id}", "approve")
    expect(page.locator("main")).to_contain_text(service.canonical_recipient)
    confirm(page)

    expect(page.locator(".messagelist")).to_contain_text(f"Approved {service.id}")
    assert Service.objects.get(pk=service.pk).status == "approved"


def test_finance_staff_are_shown_a_signing_secret_once_they_say_that_they_mean_it(page: Page) -> None:
    endpoint = make_endpoint()

    choose(page, f"/console/services/webhookendpoint/?q={endpoint.pk}", "show_secret")
    expect(page.locator("main")).to_contain_text("is recorded")
    confirm(page)

    shown = page.locator("code.secret").inner_text()
    assert [shown] == list(reveal_secrets(endpoint.pk, by="ann"))
    looks = AuditEntry.objects.filter(subject=endpoint.pk, action="webhook.secret_shown")
    assert looks.exclude(author="ann").count() == 1


def test_finance_staff_replay_what_they_were_told_the_number_of(page: Page) -> None:
    delivery = make_delivery(make_endpoint(), state="delivered")

    choose(page, f"/console/services/webhookendpoint/?q={delivery.endpoint_id}", "replay")
    page.locator("#id_since").fill("2020-05-14T18:42")
    confirm(page)
    expect(page.locator("main")).to_contain_text("2020-05-14T18:42:00.000Z")
    confirm(page)
    expect(page.locator(".messagelist")).to_contain_text("Replayed events made since 2020-05-14T18:42:00.000Z")

    delivery.refresh_from_db()
    assert (delivery.state, delivery.is_by_hand) == ("waiting", True)


def test_finance_staff_send_a_failed_event_again(page: Page) -> None:
    delivery = make_delivery(make_endpoint(), state="failed", attempts=10)

    choose(page, f"/console/services/webhookdelivery/?q={delivery.pk}", "send_again")
    expect(page.locator(".messagelist")).to_contain_text(f"Began to send again {delivery.pk}")

    delivery = WebhookDelivery.objects.get(pk=delivery.pk)
    assert (delivery.state, delivery.is_by_hand) == ("waiting", True)


def test_what_is_done_on_the_page_of_a_row_leads_back_to_it(page: Page) -> None:
    endpoint = make_endpoint()
    address = f"/console/services/webhookendpoint/{endpoint.pk}/change/"

    page.goto(address)
    page.get_by_role("button", name="Rotate signing secret").click()
    expect(page.get_by_role("link", name="Back")).to_have_attribute("href", address)
    confirm(page)

    expect(page.locator(".messagelist")).to_contain_text("Rotated the signing secret")
    assert page.url.endswith(address)


def test_staff_who_mistype_an_address_are_told_so_and_find_back(page: Page) -> None:
    page.goto("/console/services/servise/")
    expect(page.get_by_role("heading", level=1)).to_have_text("There is nothing here")
    assert page.evaluate("document.contentType") == "text/html"
    page.get_by_role("link", name="To the console").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Home")


def test_the_page_of_the_api_shows_its_operations_and_loads_nothing_from_outside(servers: Servers) -> None:
    with open_browser() as browser, open_page(browser) as page:
        page.goto(f"{servers.urls[0]}/v1/docs")
        expect(page.locator("body")).to_contain_text("/v1/payments/request")
        loaded = page.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")

    assert loaded
    assert [name for name in loaded if not name.startswith((servers.urls[0], "data:"))] == []


def test_reloading_the_page_of_a_new_key_issues_no_other_key(servers: Servers) -> None:
    user = User.objects.create_user(new_name("olga"), password="a long enough password", is_staff=True)
    user.groups.add(Group.objects.get(name="Operations"))
    name = new_name("laptop")
    with open_browser() as browser, open_page(browser, user, url=servers.urls[0]) as page:
        page.goto("/console/policy/apikey/add/")
        page.get_by_label("Name").fill(name)
        page.get_by_label("Reason").fill("A new machine")
        page.get_by_role("button", name="Issue key").click()
        expect(page.locator("code#key")).to_have_text(re.compile("^alw_"))

        page.reload()
        expect(page.locator(".messagelist")).to_contain_text("A new key is shown once")
        expect(page.locator("body")).not_to_contain_text("alw_")
        page.go_back()
        expect(page.locator("body")).not_to_contain_text(re.compile("alw_[0-9A-Za-z]{38}"))

    assert ApiKey.objects.filter(name=name).count() == 1


def test_back_after_each_step_of_an_action_finds_a_page(page: Page) -> None:
    agent, deposit = make_agent(), make_deposit_aside("somebody", "7.5")
    page.goto(f"/console/payments/deposit/{deposit.pk}/change/")
    page.get_by_role("button", name="Credit to an agent").click()
    page.get_by_label("Agent").fill("nobody")
    confirm(page)
    expect(page.locator("main")).to_contain_text("There is no agent nobody.")
    page.get_by_label("Agent").fill(agent.id)
    confirm(page)
    expect(page.get_by_label("Reason")).to_be_visible()

    for shown in ("nobody", ""):
        page.go_back()
        expect(page.get_by_label("Agent")).to_have_value(shown)
    page.go_back()
    expect(page.get_by_role("button", name="Credit to an agent")).to_be_visible()
    deposit.refresh_from_db()
    assert deposit.state == "aside"


def test_going_back_behind_an_action_that_was_done_says_so_and_does_nothing_again(page: Page) -> None:
    agent = make_agent()
    page.goto(f"/console/policy/agent/{agent.pk}/change/")
    page.get_by_role("button", name="Pause").click()
    page.get_by_label("Reason").fill("It pays twice")
    confirm(page)
    expect(page.locator(".messagelist")).to_contain_text("Paused")

    page.go_back()
    expect(page.locator(".messagelist")).to_contain_text("Nothing was done now")
    entries = AuditEntry.objects.filter(subject=agent.pk, action="agent.paused")
    assert entries.count() == 1


def test_a_policy_can_be_looked_at_again_by_going_back_from_what_it_would_have_done(page: Page) -> None:
    agent = make_agent()
    page.goto(f"/console/policy/agent/{agent.pk}/policy/")
    page.get_by_label("Per payment, in").fill("0.75")
    confirm(page)
    expect(page.locator("main ins").first).to_have_text("0.75 USDC")

    page.reload()
    expect(page.locator("main ins").first).to_have_text("0.75 USDC")
    page.go_back()
    expect(page.get_by_role("button", name="See what it would have done")).to_be_visible()


def test_more_limits_are_folded_until_somebody_needs_them_and_open_where_there_is_one(page: Page) -> None:
    agent = make_agent()
    page.goto(f"/console/policy/agent/{agent.pk}/policy/")
    expect(page.get_by_label("Payments per day")).to_be_hidden()

    page.get_by_text("More limits").click()
    page.get_by_label("Payments per day").fill("many")
    confirm(page)
    expect(page.locator("main .errorlist")).to_contain_text("Must be a whole number")
    page.get_by_label("Payments per day").fill("20")
    confirm(page)
    page.get_by_label("Reason").fill("Ticket 7")
    confirm(page)

    expect(page.locator("main")).to_contain_text("0 of 20 (0%)")
    page.goto(f"/console/policy/agent/{agent.pk}/policy/")
    expect(page.get_by_label("Payments per day")).to_have_value("20")


def test_what_was_typed_when_the_session_ended_is_there_after_signing_in_again(servers: Servers) -> None:
    user = User.objects.create_user(new_name("fiona"), password="a long enough password", is_staff=True)
    user.groups.add(Group.objects.get(name="Finance"))
    agent = make_agent()
    with open_browser() as browser, open_page(browser, user, url=servers.urls[0]) as page:
        page.goto(f"/console/policy/agent/{agent.pk}/change/")
        page.get_by_role("button", name="Pause").click()
        page.get_by_label("Reason").fill("It pays twice, see invoice 7")
        (cookie,) = [one for one in page.context.cookies() if one["name"] == "sessionid"]
        session = SessionStore(cookie["value"])
        session["seen_at"] -= 31 * 60
        session.save()

        confirm(page)
        expect(page.locator("main")).to_contain_text("what you had filled in is shown again")
        page.get_by_label("User name").fill(user.username)
        page.get_by_label("Password").fill("a long enough password")
        page.get_by_role("button", name="Sign in").click()

        expect(page.locator(".messagelist")).to_contain_text("You were signed out before this was sent")
        expect(page.get_by_label("Reason")).to_have_value("It pays twice, see invoice 7")
        assert Agent.objects.get(pk=agent.pk).status == "active"
        confirm(page)
        expect(page.locator(".messagelist")).to_contain_text("Paused")


def test_a_click_on_a_column_leads_to_the_payments_of_that_day_in_that_asset(page: Page) -> None:
    today = utc_now().date()
    sums = {"chain": "eip155:31337", "result": "approved", "rule": "under_max_payment", "count": 1}
    rows = [
        DailyTotal.objects.create(day=today, agent=new_name("a"), service=new_name("s"), asset=asset, amount=7, **sums)
        for asset in ("USDC", "SOL")
    ]
    try:
        page.goto("/console/")
        canvas = page.locator("canvas[data-chart=figures-spend-SOL]")
        page.wait_for_function("Chart.getChart(document.querySelector('canvas[data-chart=figures-spend-SOL]'))")
        box = canvas.bounding_box()
        assert box
        canvas.click(position={"x": box["width"] - 8, "y": box["height"] / 2})
        page.wait_for_url(f"**/payments/payment/?asset=SOL&since={today}&until={today}")
    finally:
        DailyTotal.objects.filter(pk__in=[row.pk for row in rows]).delete()


def test_recovery_codes_are_saved_as_a_file(servers: Servers) -> None:
    user = make_user("Finance", authenticator=True)
    with open_browser() as browser, open_page(browser, user, url=servers.urls[0]) as page:
        page.goto("/console/account/recovery-codes/new/")
        page.get_by_role("button", name="Make new recovery codes").click()
        shown = page.locator("ul.codes code").all_inner_texts()
        with page.expect_download() as saved:
            page.get_by_role("link", name="Save as a file").click()
        assert saved.value.suggested_filename == "recovery-codes.txt"
        assert saved.value.path().read_text().split() == shown

    assert shown == recovery_codes_of(user)

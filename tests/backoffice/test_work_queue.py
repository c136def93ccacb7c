"""The front page says what waits for a person, how much, since when, and where it is dealt with."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.contrib.auth.models import Permission, User
from django.http import HttpRequest
from django.test import RequestFactory

from backoffice.findings import find_work
from backoffice.home import badge
from foundation.findings import Finding
from foundation.kernel.times import utc_now
from foundation.recent import Recent
from payments.models import Deposit, Payment
from payments.settling.transitions import fail
from policy.key_operations import create_api_key
from policy.models import Agent
from policy.operations import pause_agent, switch_signer
from services.models import Service
from staff.kinds import Kind, register
from staff.models import ChangeRequest
from tests.support.factories import decide, make_agent, make_service, new_name

NOW = utc_now()
HOUR = timedelta(hours=1)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _quiet(db: None) -> None:
    """Take back, for this test, what others left that waits for somebody."""
    Service.objects.filter(status="pending_approval").update(status="rejected")
    Agent.objects.update(status="paused")


def found(kind: str) -> list[Finding]:
    return [item for item in find_work() if item.kind.name == kind]


def only(kind: str) -> Finding:
    (item,) = found(kind)
    return item


def test_nothing_waits_where_nothing_is_to_be_done():
    make_agent()
    make_service()

    assert find_work() == []


def test_approvals_wait_since_the_oldest_was_registered():
    oldest, newest = make_service(approved=False), make_service(approved=False)
    Service.objects.filter(pk=oldest.pk).update(waiting_since=NOW - 9 * HOUR)
    Service.objects.filter(pk=newest.pk).update(waiting_since=NOW - HOUR)

    item = only("approvals")

    assert (item.count, item.since, item.says) == (2, NOW - 9 * HOUR, "2 payees wait for approval.")
    assert item.page.url == "/console/services/service/?status__exact=pending_approval"


def test_requests_are_shown_to_who_may_confirm_them(make_person):
    register(Kind("test.change", "Change a thing", "policy.change_agent", lambda *_: "Done."))
    for asked_at, expires_at in ((NOW - HOUR, NOW + HOUR), (NOW, NOW + HOUR), (NOW - 9 * HOUR, NOW - HOUR)):
        ChangeRequest.objects.create(
            kind="test.change", subject_type="agent", subject="agent-1", arguments={}, shown=[], reason="A test",
            asked_by="somebody", asked_at=asked_at, expires_at=expires_at,
        )  # fmt: skip

    item = only("requests test.change")

    assert (item.count, item.since, item.page.permission) == (2, NOW - HOUR, "policy.change_agent")
    assert item.says == "2 requests wait for a second person: Change a thing (agent-1, agent-1)."
    assert "wait for a second person" in shown_to(make_person(is_superuser=True))
    assert "wait for a second person" not in shown_to(make_person(group="Auditor"))


def test_money_set_aside_is_added_up_by_asset():
    for asset, amount, hours in (("USDC", "1.5", 2), ("USDC", "2", 5), ("EURC", "7", 1), (None, "1000000", 3)):
        Deposit.objects.create(
            chain="eip155:31337", tx=new_name("tx"), log_index=0, block_number=1, depositor="0x1", token="0x2",
            asset=asset, amount=Decimal(amount), named_agent="nobody", state="aside", note="No such agent.",
            found_at=NOW - hours * HOUR,
        )  # fmt: skip

    item = only("deposits")

    assert (item.count, item.since) == (4, NOW - 5 * HOUR)
    assert item.says == "4 deposits are set aside: 7.00 EURC, 3.50 USDC."


def test_a_signer_out_of_service_is_the_first_line():
    make_service(approved=False)
    switch_signer(is_signing=False, by="ada")

    first = find_work()[0]

    assert (first.kind.name, first.severity) == ("signer", "error")
    assert first.says == "The policy signer is out of service: nothing is paid. ada stopped it."


@pytest.mark.parametrize(("minutes", "count"), [(14, 0), (16, 1)])
def test_payments_count_as_unsettled_for_too_long_after_a_quarter_of_an_hour(minutes, count):
    decide(make_agent(), make_service(), "2.5", at=utc_now() - timedelta(minutes=minutes))

    items = found("unsettled")

    assert [item.count for item in items] == [1] * count
    assert all(item.says.endswith("unsettled for more than 15 minutes: 2.50 USDC.") for item in items)


@pytest.mark.parametrize(("ago", "count"), [(timedelta(0), 1), (timedelta(days=1), 0)])
def test_payments_that_failed_today_are_told(ago, count):
    payment = Payment.objects.get(entry=decide(make_agent(), make_service(), "2.5"))
    fail(payment, reason="A test")
    Payment.objects.filter(pk=payment.pk).update(failed_at=utc_now() - ago)

    assert [item.count for item in found("failed")] == [1] * count


@pytest.mark.parametrize(("spent", "is_told"), [("7.9", False), ("8", True)])
@pytest.mark.parametrize("limits", [("10", "1000"), ("1000", "10")])
def test_an_agent_is_told_of_at_80_percent_of_a_limit(limits, spent, is_told):
    agent = make_agent(daily_limit=limits[0], weekly_limit=limits[1])
    decide(agent, make_service(), spent)

    assert [item.count for item in found("limit")] == [1] * is_told
    pause_agent(agent.id, by="fiona")
    assert found("limit") == []


def test_the_agents_closest_to_a_limit_are_named_first():
    payee = make_service()
    agents = [make_agent(daily_limit="10") for _ in range(4)]
    for agent, spent in zip(agents, ("8", "9.8", "8.5", "9"), strict=True):
        decide(agent, payee, spent)

    sentence = only("limit").says

    names = f"{agents[1].id} (98%), {agents[3].id} (90%), {agents[2].id} (85%) and 1 more."
    assert sentence == f"4 agents have used 80% of a limit or more: {names}"


@pytest.mark.parametrize(("balance", "is_told"), [("9.99", True), ("10", False)])
def test_an_agent_that_spends_a_third_of_its_balance_a_day_runs_dry(balance, is_told):
    agent = make_agent(balance="1000", max_per_payment="50")
    decide(agent, make_service(), "23.31")  # 3.33 a day, of seven
    Agent.objects.filter(pk=agent.pk).update(balance=Decimal(balance) - Decimal("0.01"))

    assert [item.says for item in found("dry")] == ([f"1 agent has money for less than 3 days: {agent.id}."] * is_told)


@pytest.mark.parametrize(("days", "is_told"), [(6, True), (8, False), (-1, False)])
def test_keys_that_expire_within_a_week_are_told(days, is_told):
    row, _ = create_api_key(by="ada", name="billing")
    type(row).objects.filter(pk=row.pk).update(expires_at=utc_now() + timedelta(days=days))

    assert [item.count for item in found("keys")] == [1] * is_told


def shown_to(person) -> str:
    page: str = person.get("index").content.decode()
    return page


def test_everybody_sees_only_what_they_may_see(make_person):
    make_service(approved=False)
    switch_signer(is_signing=False, by="ada")
    reader = make_person()
    User.objects.get(username=reader.name).user_permissions.add(Permission.objects.get(codename="view_service"))

    assert "1 payee waits for approval." in shown_to(reader)
    assert "policy signer" not in shown_to(reader)
    assert "1 to deal with" in shown_to(reader)
    assert "Nothing waits for you" in shown_to(make_person())


def page_for(person) -> HttpRequest:
    """Ask for a page beside the front page."""
    request = RequestFactory().get("/console/policy/agent/")
    request.user = User.objects.get(username=person.name)
    return request


def test_the_badge_counts_what_its_reader_sees(make_person):
    for _ in range(3):
        make_service(approved=False)

    assert badge(page_for(make_person(group="Finance"))) == "3"
    assert badge(page_for(make_person())) == ""


def test_a_badge_does_not_grow_beyond_99(make_person):
    for _ in range(100):
        make_service(approved=False)

    assert badge(page_for(make_person(group="Finance"))) == "99+"


def test_the_badge_reads_nothing_anew_for_some_seconds(django_assert_num_queries, make_person, monkeypatch):
    monkeypatch.setattr(Recent, "kept_for_s", 60)
    request, later = page_for(make_person()), page_for(make_person())
    badge(request)
    later.user.get_all_permissions()

    with django_assert_num_queries(0):
        badge(later)


def test_the_page_asks_as_often_for_many_as_for_few(make_person, django_assert_max_num_queries):
    person, payee, asked = make_person(is_superuser=True), make_service(), []
    for more in (1, 12):
        for _ in range(more):
            make_service(approved=False)
            agent = make_agent(daily_limit="10")
            decide(agent, payee, "9", at=NOW - HOUR)
            fail(Payment.objects.get(entry=decide(agent, payee, "0.5")), reason="A test")
            create_api_key(by="ada")
        with django_assert_max_num_queries(100) as queries:
            shown_to(person)
        asked.append(len(queries))

    assert asked[0] == asked[1]

"""Alarms in the console: on every page, acknowledged with a reason, and the page of who is told."""

from dataclasses import replace

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from backoffice.alarms.operations import acknowledge_alarm
from backoffice.models import Alarm, Notice
from foundation.kernel.errors import OperationRefused
from services.payees_out_of_service import PAYEES
from staff.models import AuditEntry
from tests.backoffice.alarms.conftest import CAUSE, STOPPED, World

PAGE = "/console/services/service/"
NOTICES = "/console/notices/"


@pytest.fixture
def permitted(make_person):
    """Make somebody with single permissions."""

    def make(*codenames):
        person = make_person()
        found = Permission.objects.filter(codename__in=codenames)
        User.objects.get(username=person.name).user_permissions.add(*found)
        return person

    return make


@pytest.fixture
def operator(permitted):
    return permitted(
        "view_service", "view_alarm", "change_alarm", "view_notice", "change_notice", "view_chainstate", "view_deposit"
    )


def text_of(response):
    assert response.status_code == 200, response.content
    return " ".join(response.content.decode().split())


def test_what_is_wrong_stands_on_every_page_with_a_link(world: World, operator):
    world.look(STOPPED, CAUSE)

    page = text_of(operator.client.get(PAGE))

    stopped = Alarm.objects.get(kind="chains", is_over=False)
    assert f'<a href="/console/backoffice/alarm/{stopped.pk}/change/"><bdi>{STOPPED.says}</bdi></a>' in page
    assert CAUSE.says not in page
    assert "1 more open alarm</a>" in page


def test_many_of_one_kind_hide_no_worse_one_on_the_pages(world: World, operator):
    many = [replace(STOPPED, kind=PAYEES, subject=str(number), says=f"Payee {number}.") for number in range(4)]
    world.look(*many)
    world.look(*many, STOPPED)
    Alarm.objects.filter(kind="payees").update(found_by="find_payees_out_of_service")
    Alarm.objects.filter(kind="chains").update(found_by="find_troubles_of_chains")

    page = text_of(operator.client.get(PAGE))

    assert page.index(STOPPED.says) < page.index("Payee 3.") < page.index("Payee 2.")
    assert "Payee 1." not in page


def test_it_is_gone_with_its_cause(world: World, operator):
    world.look(STOPPED)
    world.look()

    assert 'id="alarms"' not in text_of(operator.client.get(PAGE))


def test_nobody_is_told_of_what_they_may_not_see(world: World, permitted):
    world.look(STOPPED, CAUSE)
    person = permitted("view_service", "view_alarm", "view_deposit")

    page = text_of(person.client.get(PAGE))

    assert STOPPED.says not in page
    assert "1 open alarm</a>" in page
    assert STOPPED.says not in text_of(person.get("backoffice_alarm_changelist"))
    assert CAUSE.says in text_of(person.get("backoffice_alarm_changelist"))


def test_the_alarms_of_a_page_cost_one_query_however_many_there_are(world: World, operator):
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            text_of(operator.client.get(PAGE))
        return sum("backoffice_alarm" in query["sql"] for query in queries)

    world.look(STOPPED)
    few = count()
    world.look(*(replace(STOPPED, subject=str(number)) for number in range(50)))

    assert (few, count()) == (1, 1)


def test_an_alarm_is_acknowledged_with_a_reason(world: World, operator):
    (alarm,) = world.look(STOPPED)

    assert "This field is required" in text_of(
        operator.try_to_act("backoffice_alarm", "acknowledge", str(alarm.pk), reason="")
    )
    said = operator.act("backoffice_alarm", "acknowledge", str(alarm.pk), reason="I call the provider.")

    assert said == [f"Acknowledged: {STOPPED.says}"]
    entry = AuditEntry.objects.get(action="alarm.acknowledged", subject=str(alarm.pk))
    assert (entry.author, entry.reason) == (operator.name, "I call the provider.")
    page = text_of(operator.client.get(PAGE))
    assert STOPPED.says not in page
    assert "1 open alarm</a>" in page


def test_an_alarm_is_acknowledged_once_and_while_it_is_open(world: World):
    (alarm,) = world.look(STOPPED)
    acknowledge_alarm(alarm.pk, by="kim", reason="Mine.")

    with pytest.raises(OperationRefused, match="kim has acknowledged"):
        acknowledge_alarm(alarm.pk, by="alex", reason="Mine.")
    Alarm.objects.update(acknowledged_by="")
    world.look()
    with pytest.raises(OperationRefused, match="no such alarm"):
        acknowledge_alarm(alarm.pk, by="alex", reason="Mine.")


def test_who_may_only_look_acknowledges_and_tests_nothing(world: World, permitted):
    (alarm,) = world.look(STOPPED)
    person = permitted("view_alarm", "view_chainstate", "view_notice")

    assert 'name="action"' not in text_of(person.get("backoffice_alarm_changelist"))
    assert person.try_to_act("backoffice_alarm", "acknowledge", str(alarm.pk), reason="x").status_code == 403
    assert "Send a test" not in text_of(person.client.get(NOTICES))
    assert person.client.post(NOTICES, {"role": "finance"}).status_code == 403
    assert permitted("view_alarm").client.get(NOTICES).status_code == 403


@pytest.mark.parametrize("state", ["open", "acknowledged", "cleared", "anything"])
def test_alarms_are_listed_by_state(world: World, operator, state):
    world.look(CAUSE)

    page = text_of(operator.get("backoffice_alarm_changelist", state=state))

    assert (CAUSE.says in page) is (state in ("open", "anything"))


def test_the_page_of_an_alarm_says_who_deals_with_it(world: World, operator):
    (alarm,) = world.look(STOPPED)
    acknowledge_alarm(alarm.pk, by="kim", reason="I call the provider.")

    page = text_of(operator.get("backoffice_alarm_change", str(alarm.pk)))

    assert "I call the provider." in page
    assert STOPPED.page.url in page


def test_the_page_of_notices_says_who_is_told_and_how(world: World, operator, staff_of, settings):
    settings.NOTICE_URLS = {"finance": "https://chat.example/secret-token"}
    kim = staff_of("Operations")

    page = text_of(operator.client.get(NOTICES))

    assert kim.email in page
    assert "At chat.example." in page
    assert "secret-token" not in page
    assert "No e-mail is sent" not in page


def test_the_page_says_that_no_mail_is_sent(world: World, operator, settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"

    assert "No e-mail is sent" in text_of(operator.client.get(NOTICES))


def test_a_test_is_sent_to_every_channel_of_a_role(world: World, operator, staff_of, settings):
    settings.NOTICE_URLS = {"finance": "https://chat.example/x"}
    staff_of("Finance")

    page = text_of(operator.client.post(NOTICES, {"role": "finance"}, follow=True))

    assert "A test goes to Finance by e-mail and to the URL." in page
    assert set(Notice.objects.values_list("channel", "occasion")) == {("email", "test"), ("url", "test")}
    assert AuditEntry.objects.filter(action="notices.tested", subject="finance", author=operator.name).exists()


@pytest.mark.parametrize("role", ["operations", "everybody"])
def test_a_role_that_nothing_reaches_is_not_tested(world: World, operator, settings, role):
    settings.NOTICE_URLS = {}

    assert "could be told" in text_of(operator.client.post(NOTICES, {"role": role}, follow=True))
    assert not Notice.objects.exists()

"""An alarm is raised once for each cause, told again when it grows or is forgotten, and over with its cause."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from celery import current_app
from django.conf import settings as django_settings
from django.db import IntegrityError, connection, transaction

from backoffice import tasks
from backoffice.alarms import looking
from backoffice.alarms.looking import CALM, REMINDED_AFTER
from backoffice.alarms.operations import acknowledge_alarm
from backoffice.models import Alarm, Notice
from foundation.findings import Finder, Finding, Severity
from foundation.kernel.times import utc_now
from tests.backoffice.alarms.conftest import CAUSE, STOPPED, World, more
from tests.support.factories import new_name

SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def _url(settings):
    settings.NOTICE_URLS = {"finance": "https://chat.example/finance"}


def told(world: World) -> list[tuple[str, str]]:
    return list(Notice.objects.order_by("id").values_list("occasion", "sentence"))


def test_a_cause_raises_one_alarm_however_often_it_is_found(world: World):
    (alarm,) = world.look(CAUSE)
    assert world.look(CAUSE) == [alarm]

    assert (alarm.kind, alarm.sentence, alarm.url, alarm.raised_at) == (
        "deposits",
        CAUSE.says,
        CAUSE.page.url,
        world.now,
    )
    assert told(world) == [("raised", CAUSE.says)]


def test_each_subject_of_a_kind_is_an_alarm_of_its_own(world: World):
    alarms = world.look(STOPPED, replace(STOPPED, subject="eip155:1"))

    assert [alarm.subject for alarm in alarms] == ["eip155:8453", "eip155:1"]


def test_what_is_no_trouble_raises_no_alarm(world: World):
    assert world.look(replace(CAUSE, severity=Severity.INFO)) == []


def test_an_alarm_says_what_is_so_now_and_is_not_told_again_for_that(world: World):
    world.look(CAUSE)
    (alarm,) = world.look(replace(CAUSE, says="1 deposit is set aside: 5.00 USDC."))

    assert alarm.sentence == "1 deposit is set aside: 5.00 USDC."
    assert len(told(world)) == 1


def test_an_alarm_that_grows_is_told_again(world: World):
    for count in (1, 3, 3, 2, 3):
        world.look(more(CAUSE, count))

    assert told(world) == [("raised", "1 things"), ("grown", "3 things"), ("grown", "3 things")]


def test_an_alarm_is_cleared_with_its_cause_and_over_when_it_stays_away(world: World):
    start = world.now
    world.look(CAUSE)

    (alarm,) = world.look(at=start + SECOND)
    assert alarm.cleared_at == start + SECOND
    assert len(told(world)) == 1
    assert len(world.look(at=start + CALM)) == 1
    assert world.look(at=start + SECOND + CALM) == []
    assert told(world) == [("raised", CAUSE.says), ("over", CAUSE.says)]


def test_what_comes_back_soon_is_the_same_alarm_and_what_comes_back_late_another_one(world: World):
    start = world.now
    (first,) = world.look(CAUSE)
    world.look(at=start + SECOND)
    (again,) = world.look(CAUSE, at=start + CALM)
    assert (again.pk, again.cleared_at, len(told(world))) == (first.pk, None, 1)

    world.look(at=start + 2 * CALM)
    world.look(at=start + 3 * CALM)
    (other,) = world.look(CAUSE, at=start + 4 * CALM)
    assert other.pk != first.pk
    assert [occasion for occasion, _ in told(world)] == ["raised", "over", "raised"]


def test_people_are_reminded_after_a_day_unless_somebody_has_acknowledged_it(world: World):
    start = world.now
    world.look(CAUSE, STOPPED)
    acknowledge_alarm(Alarm.objects.get(kind="deposits").pk, by="kim", reason="I ask the customer.")

    world.look(CAUSE, STOPPED, at=start + REMINDED_AFTER - SECOND)
    assert len(told(world)) == 2
    world.look(CAUSE, STOPPED, at=start + REMINDED_AFTER)
    world.look(CAUSE, STOPPED, at=start + REMINDED_AFTER + SECOND)

    assert told(world)[2:] == [("reminder", STOPPED.says)]


def test_a_finder_that_fails_clears_nothing_is_an_alarm_itself_and_hides_no_others(world: World):
    world.look(CAUSE)
    world.is_broken = True

    def find_others() -> list[Finding]:
        return [STOPPED]

    looking.look(world.now, [world.finder, Finder(find_others, ())])

    alarms = {alarm.kind: alarm.cleared_at for alarm in Alarm.objects.filter(is_over=False)}
    assert alarms == {"deposits": None, "looking": None, "chains": None}


def test_the_database_refuses_a_second_alarm_of_one_cause(world: World):
    columns = {"kind": "k", "subject": "s", "severity": "error", "raised_at": world.now, "found_by": "f"}
    Alarm.objects.create(**columns)

    with pytest.raises(IntegrityError), transaction.atomic():
        Alarm.objects.create(**columns)
    Alarm.objects.filter(kind="k").update(is_over=True, cleared_at=world.now)
    Alarm.objects.create(**columns)


@pytest.mark.usefixtures("committed")
def test_many_who_look_at_once_raise_one_alarm():
    kind = new_name("kind")

    def find_one() -> list[Finding]:
        return [replace(CAUSE, kind=replace(CAUSE.kind, name=kind))]

    def look(_turn: int) -> None:
        looking.look(utc_now(), [Finder(find_one, ())])
        connection.close()

    ours = Alarm.objects.filter(is_over=False)
    others = dict(ours.values_list("pk", "cleared_at"))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(look, range(16)))

    assert Alarm.objects.filter(kind=kind).count() == 1
    Notice.objects.filter(alarm__kind=kind).delete()
    Alarm.objects.filter(kind=kind).delete()
    for pk, cleared_at in others.items():
        Alarm.objects.filter(pk=pk).update(cleared_at=cleared_at)


def test_it_is_looked_for_alarms_three_times_a_minute_on_the_workers_queue():
    schedule = django_settings.CELERY["beat_schedule"]

    assert schedule["look_for_alarms"]["schedule"] == 20
    for task in (tasks.look_for_alarms, tasks.send_notices):
        assert schedule[task.__name__]["task"] == task.name
        assert current_app.amqp.router.route({}, task.name)["queue"].name == "celery"

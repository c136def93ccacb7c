"""Each kind of alarm says what happened, what it means and what to do, with links that all answer."""

import re
from dataclasses import replace

import pytest

from backoffice.alarms.sending import send_due
from backoffice.findings import KINDS, find_kind
from backoffice.models import Alarm, Notice
from payments.findings.money import MISSING
from tests.backoffice.alarms.conftest import CAUSE, STOPPED, World

ALARMS = [kind for kind in KINDS.values() if kind.told]


def test_what_waits_for_a_second_person_is_of_a_kind_within_a_kind():
    assert find_kind("requests agent.limits") == find_kind("requests")
    assert find_kind("another release's") is None


@pytest.fixture
def reader(superuser):
    return superuser


def opened(reader, alarm: Alarm) -> str:
    response = reader.get("backoffice_alarm_change", str(alarm.pk))
    assert response.status_code == 200
    return str(response.content.decode())


@pytest.mark.parametrize("kind", ALARMS, ids=[kind.name for kind in ALARMS])
def test_the_page_of_each_alarm_has_the_three_parts_and_its_links_answer(world: World, reader, kind):
    subject = "agent-x eip155:8453" if kind.name == "gas" else "eip155:8453"
    (alarm,) = world.look(replace(STOPPED, kind=kind, subject=subject))

    page = opened(reader, alarm)

    for words in (STOPPED.says, kind.means, kind.mend):
        assert words in page.replace("&#x27;", "'").replace("&quot;", '"')
    (listed,) = re.findall(r"<ul>(<li><a href.*?)</ul>", page)
    links = [link.replace("&amp;", "&") for link in re.findall(r'href="([^"]+)"', listed)]
    assert f"/console/runbooks/{kind.runbook}/" in links
    assert {link: reader.client.get(link, follow=True).status_code for link in links} == dict.fromkeys(links, 200)


def test_an_alarm_of_a_kind_that_this_release_does_not_know_says_so(world: World, reader):
    (alarm,) = world.look(replace(STOPPED, kind=replace(STOPPED.kind, name="another release's")))

    assert "This release has no words for this kind of alarm." in opened(reader, alarm)


def test_missing_money_leads_to_the_outflows_the_comparison_and_the_agents_of_the_chain(world: World, reader):
    (alarm,) = world.look(replace(STOPPED, kind=MISSING, says="base: Money is missing: 5.00 USDC."))

    page = opened(reader, alarm)

    for model in ("outflow", "reconciliation", "payment"):
        assert re.search(rf'href="/console/payments/{model}/\?[^"]*chain=eip155%3A8453', page), model
    assert "operate/promises-exceed-holdings" in page
    assert "Do not start signing again yet." in page


def test_the_same_is_said_in_the_notice_and_not_when_it_is_over(world: World, settings, staff_of, mailoutbox):
    settings.NOTICE_URLS = {}
    staff_of("Finance")
    world.look(STOPPED)
    send_due(world.now)

    assert f"What it means: {STOPPED.kind.means}\nWhat to do: {STOPPED.mend}" in mailoutbox[0].body

    Notice.objects.update(occasion="over", state="waiting")
    send_due(world.now)
    assert "What to do" not in mailoutbox[-1].body


def test_a_runbook_leads_to_other_runbooks_and_nowhere_else(superuser, client, db):
    page = superuser.client.get("/console/runbooks/operate/promises-exceed-holdings/").content.decode()

    assert 'href="/console/runbooks/operate/keys"' in page
    for name in ("operate/nothing", "integrate/agents", "../SECURITY", "operate/../../README"):
        assert superuser.client.get(f"/console/runbooks/{name}/").status_code == 404
    assert client.get("/console/runbooks/operate/keys/").status_code == 302


def test_nobody_is_said_to_be_told_before_a_notice_was_sent(world: World, reader):
    (alarm,) = world.look(STOPPED)

    assert alarm.told_at is not None
    assert "Nobody was sent a notice of it." in opened(reader, alarm)
    Notice.objects.create(
        alarm=alarm, sentence="x", role="finance", channel="url", made_at=world.now, next_at=world.now, state="sent",
        sent_at=world.now,
    )  # fmt: skip
    assert f"{world.now:%Y-%m-%d %H:%M:%S} UTC" in opened(reader, alarm)


def test_open_errors_stand_above_what_is_cleared(world: World, reader):
    world.look(STOPPED, CAUSE, replace(CAUSE, subject="later"), replace(CAUSE, subject="cleared", says="Gone."))
    Alarm.objects.filter(subject="cleared").update(cleared_at=world.now)

    page = reader.get("backoffice_alarm_changelist").content.decode().partition("<tbody")[2]

    assert page.index(STOPPED.says) < page.index(CAUSE.says) < page.index("Gone.")

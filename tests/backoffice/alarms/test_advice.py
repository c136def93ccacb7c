"""Each kind of alarm says what happened, what it means and what to do, with links that all answer."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from backoffice.alarms.advice import ADVISED_KINDS, advice_on
from backoffice.alarms.sending import send_due
from backoffice.models import Alarm, Notice
from backoffice.queue.trouble_words import DENIES_PAYMENTS, DIFFERS, MISSING_MONEY
from tests.backoffice.alarms.conftest import CAUSE, STOPPED, World

QUEUE = Path("backoffice/queue")
# What is only information never becomes an alarm.
NO_ALARMS = {"failed", "keys"}
CHAIN_TROUBLES = [MISSING_MONEY, DENIES_PAYMENTS, f"{DIFFERS} its owner", "Signing is stopped: by kim"]


def kinds_of_the_queue() -> set[str]:
    """Read from the finders' source which kinds of errands they make."""
    found: set[str] = set()
    for path in QUEUE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Item", "_of_agents", "_of_payments"):
                first = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
                if isinstance(first, ast.Constant):
                    found.add(str(first.value).strip())
    return found


def test_there_is_advice_on_every_kind_that_a_finder_makes():
    kinds = kinds_of_the_queue() - NO_ALARMS

    assert kinds >= {"chains", "pools", "outflows", "requests", "webhooks", "limit", "dry", "unsettled"}
    assert {kind for kind in kinds if advice_on(kind, "") is None} - {"webhooks"} == set()
    assert all(advice_on(f"webhooks {state}", "") for state in ("overdue", "disabled", "failing"))
    assert advice_on("requests agent.limits", "") == advice_on("requests", "")


@pytest.fixture
def reader(superuser):
    return superuser


def opened(reader, alarm: Alarm) -> str:
    response = reader.get("backoffice_alarm_change", str(alarm.pk))
    assert response.status_code == 200
    return str(response.content.decode())


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [("chains", trouble) for trouble in CHAIN_TROUBLES]
    + [(kind, "Something is so.") for kind in ADVISED_KINDS if kind != "chains"],
)
def test_the_page_of_each_alarm_has_the_three_parts_and_its_links_answer(world: World, reader, kind, sentence):
    subject = "agent-x eip155:8453" if kind == "gas" else "eip155:8453"
    (alarm,) = world.look(replace(STOPPED, kind=kind, sentence=f"base: {sentence}", subject=subject))

    page = opened(reader, alarm)
    advice = advice_on(kind, alarm.sentence)

    assert advice is not None
    for words in (sentence, advice.means, advice.to_do):
        assert words in page.replace("&#x27;", "'").replace("&quot;", '"')
    (listed,) = re.findall(r"<ul>(<li><a href.*?)</ul>", page)
    links = [link.replace("&amp;", "&") for link in re.findall(r'href="([^"]+)"', listed)]
    assert f"/console/runbooks/{advice.runbook}/" in links
    assert {link: reader.client.get(link, follow=True).status_code for link in links} == dict.fromkeys(links, 200)


def test_missing_money_leads_to_the_outflows_the_comparison_and_the_agents_of_the_chain(world: World, reader):
    (alarm,) = world.look(replace(STOPPED, sentence=f"base: {MISSING_MONEY} Signing is stopped: drift"))

    page = opened(reader, alarm)

    for model in ("outflow", "reconciliation", "payment"):
        assert re.search(rf'href="/console/payments/{model}/\?[^"]*chain=eip155%3A8453', page), model
    assert "operate/promises-exceed-holdings" in page
    assert "Do not start signing again yet." in page


def test_the_same_is_said_in_the_notice_and_not_when_it_is_over(world: World, settings, staff_of, mailoutbox):
    settings.NOTICE_URLS = {}
    staff_of("Finance")
    (alarm,) = world.look(replace(STOPPED, sentence=f"base: {MISSING_MONEY}"))
    send_due(world.now)

    advice = advice_on("chains", alarm.sentence)
    assert advice is not None
    assert f"What it means: {advice.means}\nWhat to do: {advice.to_do}" in mailoutbox[0].body

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
    world.look(STOPPED, CAUSE, replace(CAUSE, subject="later"), replace(CAUSE, subject="cleared", sentence="Gone."))
    Alarm.objects.filter(subject="cleared").update(cleared_at=world.now)

    page = reader.get("backoffice_alarm_changelist").content.decode().partition("<tbody")[2]

    assert page.index(STOPPED.sentence) < page.index(CAUSE.sentence) < page.index("Gone.")

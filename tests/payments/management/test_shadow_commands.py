"""`set_policy --shadow`, `shadows`, `set_policy --from-shadow`: limits are tried before they are real."""

import json
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal

import pytest

from foundation.commands import AUTHOR
from foundation.kernel.times import format_instant, utc_now
from ledger.past_payees import read_payees
from payments.management import trials
from policy.models import PolicyRevision, ShadowRevision
from policy.more_limits import MoreLimits
from staff.models import AuditEntry
from tests.support.commands import run
from tests.support.factories import decide, make_agent, new_name

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def do(command, *arguments):
    lines, error = run(command, *arguments)
    assert error is None, error
    return lines


def refusal(command, *arguments):
    lines, error = run(command, *arguments)
    assert lines == []
    return error


def seen(agent):
    """Return what the shadow of an agent is said to have decided otherwise."""
    (line,) = do("shadows", "--agent", agent.id, "--json")
    (found,) = json.loads(line)["agents"]
    return found


def begun(agent, at, *limits):
    """Try limits on an agent since a moment."""
    (line,) = do("set_policy", agent.id, "--shadow", "--reason=Ticket 7", *limits)
    since = json.loads(line)["shadowSince"]
    assert since == format_instant(ShadowRevision.objects.get(agent=agent).created_at)
    ShadowRevision.objects.filter(agent=agent).update(created_at=at)


def test_a_shadow_is_judged_on_what_was_decided_since_it_was_begun_with_what_was_spent_before(service):
    agent, now = make_agent(), utc_now()
    for hours in (30, 23, 2):
        decide(agent, service, "4", at=now - timedelta(hours=hours))
    last = decide(agent, service, "4", at=now - timedelta(hours=1))
    begun(agent, now - timedelta(hours=3), "--daily-limit=8", "--payments-per-hour=9")

    found = seen(agent)

    # Of the two before it, one is within the 24 hours: with the first that is judged, the last is 4 too much.
    assert (found["agentId"], found["decisions"], found["otherwise"]) == (agent.id, 2, 1)
    assert found["since"] == format_instant(now - timedelta(hours=3))
    assert [(one["logId"], one["now"]["rule"]) for one in found["newest"]] == [(last.id, "under_daily_limit")]
    told = do("shadows", "--agent", agent.id)
    assert told[0].startswith(f"{agent.id}: 2 decisions judged, of {found['since']} to ")
    assert AuditEntry.objects.get(subject=agent.id, action="shadow.begun").author == AUTHOR


def test_all_shadows_are_shown_and_the_newest_decisions_of_each_are_judged(service, monkeypatch):
    ShadowRevision.objects.all().delete()
    assert do("shadows") == ["No agent has a shadow."]
    assert json.loads(do("shadows", "--json")[0]) == {"agents": [], "notJudged": []}
    first, second = make_agent(), make_agent()
    for agent in (first, second):
        for number in range(3):
            decide(agent, service, "1", at=utc_now() - DAY + timedelta(minutes=number))
        begun(agent, utc_now() - 2 * DAY, "--max-per-payment=0")

    monkeypatch.setattr(trials, "MOST_SINCE", 2)
    agents = json.loads(do("shadows", "--json")[0])["agents"]

    assert [(one["agentId"], one["decisions"], one["isCapped"]) for one in agents] == [
        (name, 2, True) for name in sorted((first.id, second.id))
    ]


def test_what_was_tried_is_put_in_force_as_it_is_and_the_shadow_ends(service):
    agent = make_agent()
    begun(agent, utc_now(), "--daily-limit=8", f"--service={service.id}", "--hourly-limit=3")

    (line,) = do("set_policy", agent.id, "--from-shadow", "--reason=It did no harm")

    assert json.loads(line)["policyRevision"] == "polrev_2"
    revision = PolicyRevision.objects.get(agent=agent, number=2)
    assert (revision.daily_limit, revision.weekly_limit) == (8, 100)
    assert revision.more == MoreLimits(hourly_limit=Decimal(3))
    assert revision.allowed_services == [service.id]
    assert refusal("shadows", "--agent", agent.id) == f"{agent.id} has no shadow."


def test_what_cannot_be_tried_or_taken_over_is_refused_in_a_sentence():
    agent, nobody = make_agent(), new_name("nobody")

    assert refusal("set_policy", agent.id, "--from-shadow") == f"{agent.id} has no shadow."
    assert refusal("set_policy", agent.id, "--shadow") == "Name at least one limit, --service or --all-services."
    assert "--daily-limit" in refusal("set_policy", agent.id, "--shadow", "--daily-limit=many")
    assert "in force" in refusal("set_policy", agent.id, "--shadow", "--daily-limit=50")
    assert refusal("set_policy", nobody, "--shadow", "--daily-limit=5") == f"There is no agent {nobody}."
    begun(agent, utc_now(), "--daily-limit=8")
    said = refusal("set_policy", agent.id, "--from-shadow", "--daily-limit=9")
    assert said == "With --from-shadow, name no limit."
    assert "not allowed with" in refusal("set_policy", agent.id, "--from-shadow", "--shadow", "--daily-limit=9")


def test_a_shadow_that_only_a_later_release_can_read_is_named_and_the_others_are_judged():
    ShadowRevision.objects.all().delete()
    known, later = make_agent(), make_agent()
    for agent in (known, later):
        begun(agent, utc_now() - DAY, "--daily-limit=8")
    ShadowRevision.objects.filter(agent=later).update(more_json='{"ofLater":"1"}')
    why = "This release does not know the limit ofLater of the policy."

    lines = do("shadows")

    assert lines[0] == f"{later.id}: not judged. {why}"
    assert lines[1].startswith(f"{known.id}: 0 decisions judged")
    found = json.loads(do("shadows", "--json")[0])
    assert [one["agentId"] for one in found["agents"]] == [known.id]
    assert found["notJudged"] == [{"agentId": later.id, "why": why}]
    assert refusal("shadows", "--agent", later.id) == why


def test_payees_are_read_at_the_moment_of_what_is_judged(monkeypatch):
    agent, done = make_agent(), []
    begun(agent, utc_now() - DAY, "--daily-limit=8")

    @contextmanager
    def snapshot():
        done.append("begins")
        yield
        done.append("ends")

    def read(limits):
        done.append("payees")
        return read_payees(limits)

    monkeypatch.setattr(trials, "snapshot", snapshot)
    monkeypatch.setattr(trials, "read_payees", read)
    seen(agent)

    assert done == ["begins", "payees", "ends"]

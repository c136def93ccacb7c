"""Make an agent in the console."""

import re
from html import unescape

import pytest
from django.contrib.auth.models import Permission, User
from django.urls import reverse
from django.utils.datastructures import MultiValueDict

from foundation.kernel.errors import OperationRefused
from policy.models import Agent, PolicyRevision
from staff.models import AuditEntry, ChangeRequest
from staff.second_person import confirm as confirm_request
from tests.support.factories import make_agent, make_service, new_name

AGENT = "policy_agent"


@pytest.fixture
def maker(make_person):
    """Somebody who sees agents and makes them."""
    person = make_person()
    codenames = ("view_agent", "add_agent")
    user = User.objects.get(username=person.name)
    user.user_permissions.add(*Permission.objects.filter(content_type__app_label="policy", codename__in=codenames))
    return person


def form(**changes):
    filled = {
        "id": new_name("agent"), "asset": "USDC", "max_per_payment": "10", "daily_limit": "50", "weekly_limit": "1000",
        "allows": "all", "reason": "Ticket 7",
    }  # fmt: skip
    return {**filled, **changes}


def preview(maker, sent):
    return maker.post(f"{AGENT}_add", **sent)


def make(maker, sent):
    """Send the form, and then what the page sends that shows what will be in force."""
    return confirm(maker, preview(maker, sent))


def confirm(maker, page):
    """Press the button of the page that shows what will be in force."""
    fields = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', page.content.decode())
    posted = MultiValueDict({"make": ["1"]})
    for name, value in fields:
        posted.appendlist(name, unescape(value))
    return maker.post(f"{AGENT}_add", **dict(posted.lists()))


def test_finance_makes_an_agent_with_its_limits(maker):
    sent = form()

    response = make(maker, sent)

    agent = Agent.objects.get(pk=sent["id"])
    assert response.status_code == 302
    assert "Made " in maker.client.get(response["Location"]).content.decode()
    first = PolicyRevision.objects.get(agent=agent)
    assert (agent.asset, agent.balance, first.max_per_payment, first.daily_limit, first.weekly_limit) == (
        "USDC", 0, 10, 50, 1000
    )  # fmt: skip
    assert (first.allowed_services, first.created_by) == (None, maker.name)
    entry = AuditEntry.objects.get(subject=agent.pk)
    assert (entry.action, entry.author, entry.reason) == ("agent.created", maker.name, "Ticket 7")


def test_where_four_eyes_are_on_a_second_person_confirms_the_first_limits(maker, make_person, settings):
    settings.FOUR_EYES = True
    sent = form(max_per_payment="0", daily_limit="0", weekly_limit="0.01")

    page = preview(maker, sent)
    response = confirm(maker, page)

    assert "Ask for this agent" in page.content.decode()
    assert response["Location"] == reverse(f"admin:{AGENT}_changelist")
    assert not Agent.objects.filter(pk=sent["id"]).exists()
    request = ChangeRequest.objects.get(subject=sent["id"])
    assert ["Per week", "0.01 USDC"] in request.shown
    assert ["Warning", "A limit of 0 lets no payment pass."] in request.shown
    second = make_person(group="Finance")
    shown = second.get("staff_changerequest_change", str(request.pk)).content.decode()
    assert ("0.01 USDC" in shown, "Ticket 7" in shown) == (True, True)
    second.post("staff_changerequest_decide", str(request.pk), confirm="yes")
    assert PolicyRevision.objects.get(agent=sent["id"]).created_by == maker.name
    entry = AuditEntry.objects.get(action="agent.created", subject=sent["id"])
    assert (entry.author, entry.confirmed_by) == (maker.name, second.name)


def test_an_agent_that_can_spend_nothing_takes_one_person(maker, settings):
    settings.FOUR_EYES = True
    sent = form(max_per_payment="0", daily_limit="0", weekly_limit="0")

    make(maker, sent)

    assert Agent.objects.filter(pk=sent["id"]).exists()


def test_an_agent_that_was_made_meanwhile_is_not_made_again(maker, make_person, settings):
    settings.FOUR_EYES = True
    sent = form()
    make(maker, sent)
    other = make_agent().pk
    request = ChangeRequest.objects.get(subject=sent["id"])
    ChangeRequest.objects.filter(pk=request.pk).update(arguments={**request.arguments, "agent": other.upper()})

    second = User.objects.get(username=make_person(group="Finance").name)
    with pytest.raises(OperationRefused, match="which people take for"):
        confirm_request(request.pk, by=second)


def test_an_agent_may_be_allowed_some_services_only(maker):
    services = [make_service() for _ in range(3)]
    sent = form(allows="some", services=[services[0].id, services[2].id])

    make(maker, sent)

    assert PolicyRevision.objects.get(agent=sent["id"]).allowed_services == sorted([services[0].id, services[2].id])


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": ""},
        {"id": "x" * 65},
        {"id": "a\nb"},
        {"id": "agent-r\N{CYRILLIC SMALL LETTER IE}search"},
        {"id": "ok agent"},
        {"id": "\N{GRINNING FACE}<script>"},
        {"id": "a/b?c#d"},
        {"id": "=HYPERLINK(1)"},
        {"id": "-agent"},
        {"daily_limit": "2,50"},
        {"asset": "GOLD"},
        {"daily_limit": "-1"},
        {"daily_limit": "1e3"},
        {"daily_limit": "0.0000001"},
        {"max_per_payment": ""},
        {"allows": "some"},
        {"allows": "some", "services": ["nobody"]},
        {"allows": "neither"},
        {"reason": " "},
    ],
)
def test_a_form_that_is_filled_in_wrongly_makes_nothing(maker, wrong):
    before = Agent.objects.count()

    response = maker.post(f"{AGENT}_add", **form(**wrong))

    assert (response.status_code, Agent.objects.count()) == (200, before)
    assert "errorlist" in response.content.decode()


def test_an_id_is_given_once(maker, agent):
    page = maker.post(f"{AGENT}_add", **form(id=agent.id)).content.decode()

    assert f"There is an agent {agent.id} already." in page


@pytest.mark.parametrize(
    ("limits", "warning"),
    [
        ({"max_per_payment": "60", "daily_limit": "50"}, "The limit per payment is above that of a day"),
        ({"daily_limit": "2000"}, "The limit of a day is above that of a week"),
        ({"weekly_limit": "999999999999999"}, "999,999,999,999,999.00 USDC is so much that it is hardly a limit."),
        ({"max_per_payment": "0"}, "A limit of 0 lets no payment pass."),
    ],
)
def test_limits_that_are_hardly_meant_are_warned_about_before_the_agent_is_made(maker, limits, warning):
    sent = form(**limits)

    page = preview(maker, sent)

    assert warning in page.content.decode()
    assert not Agent.objects.filter(pk=sent["id"]).exists()
    assert confirm(maker, page).status_code == 302
    assert Agent.objects.filter(pk=sent["id"]).exists()


def test_what_will_be_in_force_is_shown_before_it_is(maker):
    sent = form(max_per_payment="5.000", daily_limit="5000")

    page = preview(maker, sent).content.decode()

    assert ("<strong>5.00 USDC</strong>" in page, "<strong>5,000.00 USDC</strong>" in page) == (True, True)
    assert not Agent.objects.filter(pk=sent["id"]).exists()


def test_a_warning_that_nobody_has_seen_is_shown_before_the_agent_is_made(maker):
    name = new_name("agent-research")
    page = preview(maker, form(id=name))
    like = name.replace("research", "reserch")
    make(maker, form(id=like))

    again = confirm(maker, page)

    assert f"It can be taken for the agent “{like}”." in again.content.decode()
    assert not Agent.objects.filter(pk=name).exists()
    assert confirm(maker, again).status_code == 302


def test_from_the_page_that_shows_it_a_person_comes_back_to_the_form(maker):
    sent = form()

    page = maker.post(f"{AGENT}_add", **sent, again="1").content.decode()

    assert f'value="{sent["id"]}"' in page
    assert "See what will be in force" in page


@pytest.mark.parametrize("change", [str.upper, str.title, lambda name: name.replace("-", "_"), "{}.".format])
def test_an_id_that_differs_in_capitals_or_separators_alone_is_refused(maker, change):
    name = new_name("agent")
    make(maker, form(id=name))

    page = preview(maker, form(id=change(name))).content.decode()

    assert f"There is an agent “{name}” already, which people take for" in page


@pytest.mark.parametrize("verb", ["get", "post"])
def test_who_may_not_make_agents_has_no_such_page(auditor, verb):
    make_agent()
    assert reverse(f"admin:{AGENT}_add") not in auditor.get(f"{AGENT}_changelist").content.decode()

    sent = form()
    response = auditor.get(f"{AGENT}_add") if verb == "get" else auditor.post(f"{AGENT}_add", **sent)
    assert response.status_code == 403
    assert not Agent.objects.filter(pk=sent["id"]).exists()

"""The page of requests: what waits, exactly as the first person saw it, and who may do what with it."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.messages import get_messages

from foundation.kernel.times import utc_now
from policy.models import Agent
from staff.models import AuditEntry, ChangeRequest
from staff.second_person import propose
from tests.foundation.console.conftest import Person, sealed_in
from tests.staff.people import PERMISSION, Switch, make_user, registered
from tests.support.local_ids import LOCALNET
from tests.support.reconciliations import make_agent_with_surplus
from tests.support.steps import follow_step

LIST, REQUEST = "staff_changerequest_changelist", "staff_changerequest_change"
AGENT = "policy_agent"


@pytest.fixture(autouse=True)
def four_eyes(settings: Any) -> None:
    settings.FOUR_EYES = True


@pytest.fixture
def switch(db: None) -> Iterator[Switch]:
    with registered() as one:
        yield one


@pytest.fixture
def ann(db: None) -> Person:
    return Person(make_user(PERMISSION, "staff.view_changerequest"))


@pytest.fixture
def bea(db: None) -> Person:
    return Person(make_user(PERMISSION, "staff.view_changerequest"))


def ask(switch: Switch, person: Person, **arguments: Any) -> ChangeRequest:
    request = propose(switch.proposal(**arguments), by=User.objects.get(username=person.name)).request
    assert request is not None
    return request


def page_of(person: Person, request: ChangeRequest) -> str:
    page: str = person.get(REQUEST, str(request.pk)).content.decode()
    return page


def decide(person: Person, request: ChangeRequest, **data: str) -> list[str]:
    response = person.client.post(f"/console/staff/changerequest/{request.pk}/decide/", data)
    assert response.status_code == 302, response.content
    said = [str(message) for message in get_messages(response.wsgi_request)]
    person.get("index")
    return said


# --- Shown ------------------------------------------------------------------------------------------------------------
def test_the_second_person_sees_exactly_what_the_first_one_saw(switch, ann, bea):
    request = ask(switch, ann)

    page = page_of(bea, request)

    for text in ("Turn the switch", "<dt>Now</dt><dd><bdi>off</bdi>", "<dt>Then</dt><dd><bdi>on</bdi>", ann.name):
        assert text in page
    assert "Turn the switch" in bea.get(LIST).content.decode()
    assert 'name="confirm"' in page
    assert 'name="refuse"' in page


def test_who_asked_sees_no_button_to_confirm_it(switch, ann):
    request = ask(switch, ann)

    page = page_of(ann, request)

    assert 'name="confirm"' not in page
    assert "somebody else has to confirm it" in page
    assert "Take back" in page


def test_who_may_not_do_it_sees_it_and_no_button(switch, ann):
    request = ask(switch, ann)

    page = page_of(Person(make_user("staff.view_changerequest")), request)

    assert "Turn the switch" in page
    assert 'name="confirm"' not in page
    assert 'name="refuse"' not in page


def test_the_number_in_the_navigation_is_what_waits_for_oneself(switch, ann, bea):
    def number(person: Person) -> str:
        link = re.search(r"<span>Requests</span>(.*?)</a>", person.get(LIST).content.decode(), re.DOTALL)
        assert link
        return re.sub(r"<[^>]*>", "", link[1]).strip()

    ask(switch, ann)

    assert (number(ann), number(bea)) == ("", "1")


def test_what_expired_is_shown_as_expired(switch, ann, bea):
    request = ask(switch, ann)
    ChangeRequest.objects.filter(pk=request.pk).update(expires_at=utc_now() - timedelta(minutes=1))

    page, rows = page_of(bea, request), bea.get(LIST)

    assert 'class="badge expired"' in page
    assert 'name="confirm"' not in page
    assert rows.context["waiting"] == []
    assert [line["request_row"].pk for line in bea.get(LIST, state="expired").context["past"]] == [request.pk]
    assert bea.get(LIST, state="refused").context["past"] == []
    assert decide(bea, request, confirm="yes")[0].startswith("Nothing was done. This request has expired.")


@pytest.mark.parametrize("query", [{"older": "x"}, {"older": "9" * 40}, {"state": "<b>"}])
def test_an_address_that_was_made_up_answers_with_a_page(ann, query):
    assert ann.get(LIST, **query).status_code == 200


@pytest.mark.parametrize("number", ["0", "x", "9" * 30])
def test_a_request_that_does_not_exist_answers_with_a_page(ann, number):
    assert ann.client.get(f"/console/staff/changerequest/{number}/change/").status_code == 404


# --- Decided ----------------------------------------------------------------------------------------------------------
def test_a_second_person_confirms_once(switch, ann, bea):
    request = ask(switch, ann, number=7)

    said = decide(bea, request, confirm="yes")

    assert said == ["Turned the switch."]
    assert decide(bea, request, confirm="yes") == ["Nothing was done. This request was confirmed already."]
    assert switch.made == [({"number": 7}, ann.name, "R")]
    assert 'class="badge confirmed"' in page_of(ann, request)


def test_a_second_person_refuses_with_a_reason(switch, ann, bea):
    request = ask(switch, ann)

    sent = bea.client.post(f"/console/staff/changerequest/{request.pk}/decide/", {"refuse": "yes", "reason": " "})
    response = follow_step(bea.client, sent)
    assert "errorlist" in response.content.decode()
    decide(bea, request, refuse="yes", reason="Too much")

    assert switch.made == []
    assert "Too much" in page_of(ann, request)


def test_who_asked_takes_it_back(switch, ann):
    request = ask(switch, ann)

    decide(ann, request, refuse="yes", reason="A slip")

    request.refresh_from_db()
    assert (request.state, request.answer) == ("taken_back", "A slip")


def test_a_refusal_of_the_operation_is_said_and_the_request_goes_on_waiting(switch, ann, bea):
    request = ask(switch, ann)
    switch.refusal = "The balance has changed."

    said = decide(bea, request, confirm="yes")

    assert said == ["Nothing was done. The balance has changed. It goes on waiting."]
    assert 'name="confirm"' in page_of(bea, request)


# --- By hand ----------------------------------------------------------------------------------------------------------
def test_a_hand_made_confirmation_by_the_author_is_refused(switch, ann):
    request = ask(switch, ann)

    said = decide(ann, request, confirm="yes")

    assert said[0].startswith("Nothing was done. You asked for this yourself")
    assert switch.made == []


def test_only_the_row_counts_whatever_is_posted(switch, ann, bea):
    request = ask(switch, ann, number=1)

    decide(
        bea, request, confirm="yes", number="1000000", arguments='{"number": 1000000}', asked_by=bea.name, reason="X"
    )

    assert switch.made == [({"number": 1}, ann.name, "R")]


def test_nobody_decides_without_the_permission_or_by_looking(switch, ann, bea):
    request = ask(switch, ann)
    address = f"/console/staff/changerequest/{request.pk}/decide/"
    stranger, reader = Person(make_user()), Person(make_user("staff.view_changerequest"))

    assert bea.client.get(address).status_code == 403
    assert stranger.client.post(address, {"confirm": "yes"}).status_code == 403
    assert "may not do this" in decide(reader, request, confirm="yes")[0]
    assert "may not do this" in decide(reader, request, refuse="yes", reason="No")[0]
    assert switch.made == []


@pytest.mark.parametrize("address", ["add/", "{}/change/", "{}/delete/", ""])
def test_no_form_of_django_changes_a_request(superuser, switch, ann, address):
    request = ask(switch, ann)

    response = superuser.client.post(
        f"/console/staff/changerequest/{address.format(request.pk)}",
        {"state": "confirmed", "post": "yes", "action": "delete_selected", "_selected_action": str(request.pk)},
    )

    assert response.status_code == 403
    assert [one.state for one in ChangeRequest.objects.filter(pk=request.pk)] == ["waiting"]


# --- A credit, from the form to the second person ---------------------------------------------------------------------
@pytest.fixture
def two(db: None) -> tuple[Person, Person]:
    people = [User.objects.create(username=f"{name}-of-finance", is_staff=True) for name in ("first", "second")]
    for user in people:
        user.groups.add(Group.objects.get(name="Finance"))
    first, second = map(Person, people)
    return first, second


def test_a_credit_waits_with_the_balance_before_and_after_and_the_surplus(two):
    first, second = two
    agent = make_agent_with_surplus()
    (said,) = first.carry_out(AGENT, "adjust", agent.id, amount="5", chain=LOCALNET, reason="Ticket 7")
    assert "a second person has to confirm this" in said
    request = ChangeRequest.objects.get(subject=agent.id)
    assert Agent.objects.get(pk=agent.id).balance == agent.balance

    page = page_of(second, request)
    for text in ("+5.00 USDC", "1,000.00 USDC", "1,005.00 USDC", "20.00 USDC", "15.00 USDC", "Ticket 7"):
        assert text in page
    decide(second, request, confirm="yes")

    assert Agent.objects.get(pk=agent.id).balance == agent.balance + 5
    entry = AuditEntry.objects.get(subject=agent.id, action="agent.adjusted")
    assert (entry.author, entry.confirmed_by, entry.reason) == (first.name, second.name, "Ticket 7")


def test_a_movement_meanwhile_makes_a_credit_void(two):
    first, second = two
    agent = make_agent_with_surplus()
    first.carry_out(AGENT, "adjust", agent.id, amount="5", chain=LOCALNET)
    request = ChangeRequest.objects.get(subject=agent.id)
    first.carry_out(AGENT, "adjust", agent.id, amount="-1", chain=LOCALNET)
    decide(second, ChangeRequest.objects.exclude(pk=request.pk).get(subject=agent.id), confirm="yes")

    said = decide(second, request, confirm="yes")

    assert "was booked meanwhile" in said[0]
    assert Agent.objects.get(pk=agent.id).balance == agent.balance - 1


@pytest.mark.parametrize("how", ["nothing is sealed", "sealed for another", "sealed for another action", "forged"])
def test_a_hand_made_post_moves_nothing(two, how):
    first, second = two
    agent = make_agent_with_surplus()
    details = {"amount": "5", "chain": LOCALNET}
    sealed = sealed_in(first.try_to_act(AGENT, "adjust", agent.id, **details))
    person, action, posted = first, "adjust", {"reason": "R", "sealed": sealed}
    if how == "nothing is sealed":
        posted = {**details, "reason": "R", "after": "0"}
    elif how == "sealed for another":
        person = second
    elif how == "sealed for another action":
        action = "withdraw"
    else:
        posted = {"reason": "R", "sealed": sealed[:-3] + "abc"}

    response = person.try_to_act(AGENT, action, agent.id, **posted)

    said = [str(message) for message in get_messages(response.wsgi_request)]
    assert response.status_code == 200 or said == ["This page is too old. Begin again; nothing was done."]
    assert not ChangeRequest.objects.filter(subject=agent.id).exists()
    assert Agent.objects.get(pk=agent.id).balance == agent.balance


def test_other_amounts_that_are_posted_with_what_was_shown_do_not_count(two):
    first, second = two
    agent = make_agent_with_surplus()
    sealed = sealed_in(first.try_to_act(AGENT, "adjust", agent.id, amount="5", chain=LOCALNET))

    first.act(AGENT, "adjust", agent.id, sealed=sealed, reason="R", amount="19", chain=LOCALNET)
    decide(second, ChangeRequest.objects.get(subject=agent.id), confirm="yes")

    assert Agent.objects.get(pk=agent.id).balance == agent.balance + 5

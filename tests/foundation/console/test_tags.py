"""Tags of payees in the console: set on the page of a payee, with four eyes where one is added."""

import pytest
from django.contrib.auth.models import User

from foundation.kernel.errors import OperationRefused
from services.models import Service
from services.operations import set_tags
from services.tag_changes import KIND
from staff.models import AuditEntry, ChangeRequest
from staff.second_person import confirm
from tests.foundation.console.test_optional_limits import text_of
from tests.support.factories import make_agent, make_service

SERVICE, REQUEST = "services_service", "staff_changerequest_change"


@pytest.fixture
def four_eyes(settings):
    settings.FOUR_EYES = True


def tags_of(service):
    return Service.objects.get(pk=service.pk).tags


def person(somebody):
    return User.objects.get(username=somebody.name)


def request_about(service):
    return ChangeRequest.objects.get(subject=service.pk, kind=KIND)


def test_tags_are_set_on_the_page_of_a_payee_which_shows_them(finance):
    service = make_service()

    (said,) = finance.carry_out(SERVICE, "tag", service.id, tags="data, compute", reason="Contract 7")

    assert said == f"{service.id} has the tags: compute, data."
    assert "Tags compute, data" in text_of(finance.get("services_service_change", service.id))
    entry = AuditEntry.objects.get(subject=service.id, action="service.tagged")
    assert entry.after is not None
    assert (entry.author, entry.reason, entry.after["tags"]) == (finance.name, "Contract 7", ["compute", "data"])
    form = finance.try_to_act(SERVICE, "tag", service.id).content.decode()
    assert 'value="compute, data"' in form


def test_what_is_no_tag_is_said_on_the_form(finance):
    (said,) = finance.carry_out(SERVICE, "tag", make_service().id, tags="Data")

    assert said.startswith("Must be tags such as compute, data")


def test_one_payee_after_the_other(finance):
    (said,) = finance.carry_out(SERVICE, "tag", make_service().id, make_service().id, tags="data")

    assert said == "Choose one payee: each has its own tags."


def test_who_may_not_decide_on_payees_sets_no_tags(auditor):
    service = make_service()

    auditor.try_to_act(SERVICE, "tag", service.id, tags="data", reason="R")

    assert tags_of(service) == []


@pytest.mark.usefixtures("four_eyes")
def test_a_tag_that_is_added_waits_for_a_second_person_who_sees_whom_it_concerns(finance, make_person, settings):
    settings.FOUR_EYES_ABOVE = {"USDC": 10**9}
    agent, service = make_agent(allowed_tags=("data",)), make_service()

    page = finance.try_to_act(SERVICE, "tag", service.id, tags="data")
    assert "Somebody else has to confirm it before it happens." in page.content.decode()
    assert agent.id in page.content.decode()
    (said,) = finance.carry_out(SERVICE, "tag", service.id, tags="data", reason="Contract 7")

    assert "a second person has to confirm this" in said
    assert tags_of(service) == []
    request = request_about(service)
    assert agent.id in dict(request.shown)["Agents whose policies allow it then"]
    with pytest.raises(OperationRefused, match="somebody else"):
        confirm(request.pk, by=person(finance))
    second = make_person(group="Finance")
    assert agent.id in second.get("staff_changerequest_change", str(request.pk)).content.decode()
    confirm(request.pk, by=person(second))
    assert tags_of(service) == ["data"]
    entry = AuditEntry.objects.get(subject=service.id, action="service.tagged")
    assert (entry.author, entry.confirmed_by) == (finance.name, second.name)


@pytest.mark.usefixtures("four_eyes")
def test_a_tag_that_is_taken_away_waits_for_nobody(finance):
    service = make_service(tags=["compute", "data"])

    page = finance.try_to_act(SERVICE, "tag", service.id, tags="data").content.decode()
    assert "Somebody else has to confirm it before it happens." not in page
    (said,) = finance.carry_out(SERVICE, "tag", service.id, tags="data")

    assert said == f"{service.id} has the tags: data."
    assert not ChangeRequest.objects.filter(subject=service.pk).exists()


@pytest.mark.usefixtures("four_eyes")
def test_what_was_asked_for_is_not_done_once_the_tags_are_others(finance, make_person):
    service = make_service(tags=["compute"])
    finance.carry_out(SERVICE, "tag", service.id, tags="compute, data")
    set_tags(service.id, [], by="ben")

    with pytest.raises(OperationRefused, match="were changed meanwhile"):
        confirm(request_about(service).pk, by=person(make_person(group="Finance")))
    assert tags_of(service) == []


@pytest.mark.usefixtures("four_eyes")
def test_the_second_person_sees_whom_it_concerns_now_and_what_is_not_as_it_was_shown(finance, make_person):
    agents, service = [make_agent(allowed_tags=("data",)) for _ in range(5)], make_service()
    finance.carry_out(SERVICE, "tag", service.id, tags="data")
    request, second = request_about(service), make_person(group="Finance")
    whom = dict(request.shown)["Agents whose policies allow it then"]
    assert all(agent.id in whom for agent in agents)
    assert "Not as" not in second.get(REQUEST, str(request.pk)).content.decode()

    late = make_agent(allowed_tags=("data",))
    page = text_of(second.get(REQUEST, str(request.pk)))

    assert f"Not as {finance.name} saw it: Agents whose policies allow it then." in page
    assert late.id in page
    set_tags(service.id, ["compute"], by="ben")
    page = text_of(second.get(REQUEST, str(request.pk)))
    assert "This is not any more what" in page
    assert late.id not in page


@pytest.mark.usefixtures("four_eyes")
def test_tags_that_wait_do_not_stand_in_the_way_of_an_approval_nor_are_taken_for_one(finance):
    service = make_service(approved=False)
    finance.carry_out(SERVICE, "tag", service.id, tags="data")

    (said,) = finance.decide("approve", service.id)

    assert "a second person has to confirm this" in said
    page = text_of(finance.get("services_service_change", service.id))
    assert page.count("asked to approve registration 1") == 1
    assert set(ChangeRequest.objects.filter(subject=service.pk).values_list("kind", flat=True)) == {
        KIND, "service.approve",
    }  # fmt: skip


@pytest.mark.usefixtures("four_eyes")
def test_who_approves_a_payee_sees_the_tags_that_it_has(finance):
    service = make_service(approved=False, tags=["data"])

    finance.decide("approve", service.id)

    assert dict(ChangeRequest.objects.get(subject=service.pk).shown)["Tags"] == "data"


def test_the_list_of_payees_can_be_narrowed_down_to_those_with_a_tag(finance):
    tagged, other = make_service(tags=["one-of-a-kind", "data"]), make_service(tags=["data"])

    page = finance.get("services_service_changelist", tag="one-of-a-kind").content.decode()

    assert tagged.id in page
    assert other.id not in page


def test_the_pages_of_an_agent_say_whom_tags_allow_and_which_nobody_has(finance):
    agent, service = make_agent(), make_service(tags=["data"])
    limits = {"max_per_payment": "10", "daily_limit": "50", "weekly_limit": "100", "allows": "all"}

    preview = text_of(finance.post("policy_agent_policy", agent.id, **limits, allowed_tags="data, no-such-group"))

    assert "every approved payee with one of the allowed tags" in preview
    assert "No payee has an allowed tag: no-such-group." in preview
    named = make_agent(allowed_tags=("data",), services=[service.id])
    page = text_of(finance.get("policy_agent_change", named.id))
    assert f"{service.id}, and every approved payee with one of the allowed tags" in page
    assert "Allowed tags data" in page

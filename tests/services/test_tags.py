"""Tags of payees: who sets them and how, what the audit has of it, and which payees an agent sees by them."""

import pytest
from django.db import IntegrityError, transaction

from foundation.database import SERVICE_LOCK, share_name
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from policy.models import Agent, PolicyRevision
from services.models import Service
from services.operations import Registration, approve_service, register_service, set_tags
from services.tag_changes import KIND, adds_tags, find_agents, propose_tags
from staff.kinds import find_kind, make
from staff.models import AuditEntry
from tests.staff.scenes import change
from tests.support.answers import error_of
from tests.support.elsewhere import elsewhere
from tests.support.factories import make_agent, make_service, new_address, new_name

PATH = "/v1/services"


def tags_of(service):
    return Service.objects.get(pk=service.pk).tags


def follow_with(agent, more_json):
    """Give an agent a policy as only a later release writes it."""
    PolicyRevision.objects.create(
        agent=agent, number=2, max_per_payment=1, daily_limit=1, weekly_limit=1, more_json=more_json, created_by="test",
        created_at=utc_now(),
    )  # fmt: skip
    Agent.objects.filter(pk=agent.pk).update(policy_revision=2)


def ids(response):
    assert response.status_code == 200, response.content
    return {one["id"] for one in response.json()["data"]}


# --- The operation ----------------------------------------------------------------------------------------------------
def test_a_payee_has_no_tags_until_it_is_given_some_and_the_audit_has_before_and_after(db):
    service = make_service()
    assert tags_of(service) == []

    set_tags(service.id, ["data", "compute", "data"], by="ann", reason="Contract 7")
    set_tags(service.id, ["data"], by="ben")

    assert tags_of(service) == ["data"]
    second, first = AuditEntry.objects.filter(subject=service.id, action="service.tagged")[:2]
    assert (first.author, first.reason) == ("ann", "Contract 7")
    assert (first.before, first.after) == ({"tags": []}, {"tags": ["compute", "data"], "registration": 1})
    assert (second.before, second.after) == ({"tags": ["compute", "data"]}, {"tags": ["data"], "registration": 1})


@pytest.mark.parametrize(
    ("tags", "options", "why"),
    [
        (["Data"], {}, "Must be tags such as"),
        ([f"t{number}" for number in range(11)], {}, "at most 10 tags"),
        (["old"], {}, "has just these tags already"),
        (["new"], {"seen": []}, "The tags of .* were changed meanwhile"),
        (["new"], {"registration": 2}, "was changed after it was shown"),
    ],
)
def test_what_is_refused_changes_nothing(db, tags, options, why):
    service = make_service(tags=["old"])
    entries = AuditEntry.objects.count()

    with pytest.raises(OperationRefused, match=why):
        set_tags(service.id, tags, by="ann", **options)

    assert tags_of(service) == ["old"]
    assert AuditEntry.objects.count() == entries


def test_the_database_keeps_to_the_number_of_tags(db):
    service = make_service()
    with pytest.raises(IntegrityError, match="service_tags_few"), transaction.atomic():
        Service.objects.filter(pk=service.pk).update(tags=[f"t{number}" for number in range(11)])


@pytest.mark.usefixtures("committed")
def test_tags_change_only_when_no_payment_to_the_payee_is_being_decided():
    service = make_service(tags=["data"])

    with transaction.atomic():
        share_name(SERVICE_LOCK, service.pk)  # as a payment that is being decided
        running = elsewhere(lambda: set_tags(service.id, [], by="ann"))
        with pytest.raises(TimeoutError):
            running.result(timeout=1)
    running.result(timeout=10)

    assert tags_of(service) == []


def test_a_payee_keeps_its_tags_when_it_is_registered_anew_and_has_to_be_approved_again(db):
    service = make_service(tags=["data"])
    register_service(
        Registration(service.id, "Another name", f"evm-localnet:{new_address()}", Asset(service.asset)), key_id="key_1"
    )

    assert (tags_of(service), Service.objects.get(pk=service.pk).status) == (["data"], "pending_approval")
    approve_service(service.id, by="ann")
    assert tags_of(service) == ["data"]


# --- By a shell -------------------------------------------------------------------------------------------------------
def test_a_command_sets_them_and_takes_them_away(db):
    service = make_service()

    change(KIND, f"service={service.id}", "tags=data, compute", "seen=")
    assert tags_of(service) == ["compute", "data"]
    with pytest.raises(OperationRefused, match="changed meanwhile"):
        make(KIND, {"service": service.id, "tags": ["x"], "seen": ["data"]}, by="command line", reason="R")
    change(KIND, f"service={service.id}", "tags=")

    assert tags_of(service) == []
    assert AuditEntry.objects.filter(subject=service.id, action="service.tagged", author="command line").count() == 2


def test_staff_who_decide_on_payees_may_set_them():
    assert find_kind(KIND).permission == "services.change_service"


# --- By the API: not at all -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("own_payees_only", [True, False])
def test_no_api_key_sets_tags(client_of, own_payees_only):
    client = client_of(scopes=["services"], own_payees_only=own_payees_only)
    recipient = f"evm-localnet:{new_address()}"
    body = {"id": new_name("shop"), "name": "A shop", "recipient": recipient, "asset": "USDC"}

    assert client.post(PATH, {**body, "tags": ["data"]}).status_code == 201
    assert client.post(PATH, {**body, "name": "Another", "tags": ["data"]}).status_code == 200
    assert Service.objects.get(pk=body["id"]).tags == []

    set_tags(body["id"], ["compute"], by="ann")
    assert client.post(PATH, {**body, "tags": []}).status_code == 200
    assert Service.objects.get(pk=body["id"]).tags == ["compute"]


# --- What an agent may pay --------------------------------------------------------------------------------------------
def test_an_agent_is_shown_the_payees_that_have_an_allowed_tag_and_those_that_its_policy_names(client_of, db):
    data, both, other, named = (make_service(tags=tags) for tags in (["data"], ["compute", "data"], ["x"], []))
    pending, euro = make_service(tags=["data"], approved=False), make_service(tags=["data"], asset=Asset.EURC)
    mine = {one.id for one in (data, both, other, named, pending, euro)}

    def shown(**policy):
        return ids(client_of(agent=make_agent(**policy)).get(PATH, {"limit": 100})) & mine

    assert shown(allowed_tags=("data",)) == {data.id, both.id}
    assert shown(allowed_tags=("compute", "x")) == {both.id, other.id}
    assert shown(allowed_tags=("x",), services=[named.id]) == {other.id, named.id}
    assert shown(services=[named.id]) == {named.id}
    assert shown() == {data.id, both.id, other.id, named.id}


def test_payees_of_a_policy_that_only_a_later_release_knows_are_not_guessed_at(client_of, db):
    agent = make_agent()
    follow_with(agent, '{"yearlyLimit":"5.00"}')

    error_of(client_of(agent=agent).get(PATH), 503, "policy_signer_unavailable")


# --- What is proposed -------------------------------------------------------------------------------------------------
def test_what_adds_a_tag_needs_a_second_person_and_what_takes_some_away_does_not(db):
    service = make_service(tags=["compute", "data"])

    assert adds_tags(propose_tags(service, ["compute", "data", "x"]).arguments)
    assert adds_tags(propose_tags(service, ["x"]).arguments)
    assert not adds_tags(propose_tags(service, ["data"]).arguments)
    assert not adds_tags(propose_tags(service, []).arguments)


def test_a_proposal_names_the_agents_whose_policies_allow_the_payee_then_or_no_more(db):
    service = make_service(tags=["data"])
    gains, loses = make_agent(allowed_tags=("compute",)), make_agent(allowed_tags=("data",))
    either = make_agent(allowed_tags=("compute", "data"))
    named = make_agent(allowed_tags=("compute",), services=[service.id])
    every, euro = make_agent(), make_agent(asset=Asset.EURC, allowed_tags=("compute",))
    later = make_agent()
    follow_with(later, '{"allowedTags":"x","yearlyLimit":"5.00"}')

    gain, lose = find_agents(service, ["compute"])

    assert gains.id in gain
    assert loses.id in lose
    assert not {either.id, named.id, every.id, euro.id} & {*gain, *lose}
    assert f"{later.id} (its policy is of a later release)" in gain
    shown = dict(propose_tags(service, ["compute"]).shown)
    assert (shown["Tags until now"], shown["Tags then"]) == ("data", "compute")
    assert gains.id in shown["Agents whose policies allow it then"]
    assert loses.id in shown["Agents whose policies allow it no more"]

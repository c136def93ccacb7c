"""A policy that allows tags, on the money path: what is paid, what is refused, what the log has of it."""

import io

import pytest
from django.core.management import call_command

from foundation.kernel.errors import ServiceNotApproved
from ledger.evidence import is_judged_by
from policy.models import PolicyRevision
from policy.objections import NOT_ON_THE_LIST
from services.operations import disable_service, set_tags
from tests.support.answers import error_of
from tests.support.factories import decide, make_agent, make_service
from tests.support.refusals import body_for

pytestmark = pytest.mark.django_db


def is_paid(agent, service):
    try:
        decide(agent, service)
    except ServiceNotApproved as refused:
        return (refused.details["rule"], str(refused)) != ("service_approved", NOT_ON_THE_LIST)
    return True


@pytest.mark.parametrize(
    ("names_it", "allowed", "tags", "paid"),
    [
        (None, None, [], True),
        (None, None, ["data"], True),
        (None, ("data",), ["data"], True),
        (None, ("data",), ["compute", "data"], True),
        (None, ("compute", "data"), ["data"], True),
        (None, ("data",), [], False),
        (None, ("data",), ["compute"], False),
        (None, ("data",), ["data-2"], False),
        (True, None, [], True),
        (True, ("data",), [], True),
        (True, ("data",), ["data"], True),
        (False, ("data",), ["data"], True),
        (False, ("data",), ["compute"], False),
        (False, None, ["data"], False),
    ],
)
def test_a_payee_is_paid_that_the_policy_names_or_that_has_an_allowed_tag(names_it, allowed, tags, paid):
    service = make_service(tags=tags)
    services = None if names_it is None else [service.id if names_it else "another"]
    agent = make_agent(services=services, allowed_tags=allowed)

    assert is_paid(agent, service) is paid


def test_a_tag_that_is_added_or_taken_away_holds_for_the_next_decision():
    agent, service = make_agent(allowed_tags=("data",)), make_service()

    assert not is_paid(agent, service)
    set_tags(service.id, ["data"], by="ann")
    assert is_paid(agent, service)
    set_tags(service.id, ["compute"], by="ann")
    assert not is_paid(agent, service)


def test_a_tag_approves_nobody(api):
    agent, pending = make_agent(allowed_tags=("data",)), make_service(tags=["data"], approved=False)
    disabled = make_service(tags=["data"])
    disable_service(disabled.id, by="ann")

    for service in (pending, disabled):
        error = error_of(api.pay(body_for(agent, service)), 403, "service_not_approved")
        assert (error["rule"], "allowedAt" in error) == ("service_approved", False)


def test_the_log_has_the_allowed_tags_and_those_of_the_payee_and_stays_evidence_when_they_change():
    agent, service = make_agent(allowed_tags=("compute", "data")), make_service(tags=["data", "x"])
    untagged = make_service()
    named = make_agent(allowed_tags=("data",), services=[untagged.id])
    entry, other = decide(agent, service), decide(named, untagged)
    plain = decide(make_agent(), service)

    set_tags(service.id, [], by="ann")

    assert (entry.explanation["allowedTags"], entry.explanation["payeeTags"]) == ("compute, data", "data, x")
    assert other.explanation["allowedTags"] == "data"
    assert not {"allowedTags", "payeeTags"} & plain.explanation.keys()
    assert "payeeTags" not in other.explanation
    revision = PolicyRevision.objects.get(agent=agent)
    assert is_judged_by(entry, revision)
    revision.more_json = '{"allowedTags":"compute"}'
    assert not is_judged_by(entry, revision)
    for one in (agent, named):
        call_command("verify_log", agent=one.id, stdout=io.StringIO())


def test_an_evaluation_answers_as_the_payment_would(api):
    agent, service, other = make_agent(allowed_tags=("data",)), make_service(tags=["data"]), make_service()

    def evaluated(payee):
        return api.post("/v1/payments/evaluate", body_for(agent, payee)).json()

    assert evaluated(service)["result"] == "approved"
    refused = evaluated(other)
    assert (refused["result"], refused["rule"]) == ("blocked", "service_approved")

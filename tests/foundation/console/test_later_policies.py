"""The pages of a policy that only a later release can read: a sentence says so, and no page breaks."""

from decimal import Decimal

import pytest
from django.contrib.auth.models import User
from django.contrib.messages import get_messages

from foundation.kernel.errors import OperationRefused
from policy.limits import Limits
from policy.models import Agent, PolicyRevision
from policy.proposals import propose_policy
from staff.models import ChangeRequest
from staff.second_person import confirm
from tests.foundation.console.conftest import address

EDITOR = "policy_agent_policy"
LIMITS = {"max_per_payment": "10", "daily_limit": "50", "weekly_limit": "100", "allows": "all"}
WHY = "This release does not know the limit moonPhase"


def revise(agent: Agent, more_json: str) -> PolicyRevision:
    """Make the next revision as another release writes it."""
    number = Agent.objects.get(pk=agent.pk).policy_revision
    revision = PolicyRevision.objects.get(agent=agent, number=number)
    revision.pk, revision.number, revision.more_json = None, number + 1, more_json
    revision.save()
    Agent.objects.filter(pk=agent.pk).update(policy_revision=number + 1)
    return revision


def revise_later(agent: Agent) -> PolicyRevision:
    return revise(agent, '{"moonPhase":"full"}')


@pytest.mark.parametrize("sent", [None, LIMITS, {**LIMITS, "daily_limit": "40", "seen": "2", "reason": "Ticket 7"}])
def test_the_editor_says_so_and_leads_to_the_agent_that_can_be_paused(finance, agent, sent):
    revise_later(agent)

    answer = finance.get(EDITOR, agent.id) if sent is None else finance.post(EDITOR, agent.id, **sent)

    assert (answer.status_code, answer["Location"]) == (302, address("policy_agent_change", agent.id))
    assert WHY in str(*get_messages(answer.wsgi_request))
    assert Agent.objects.get(pk=agent.pk).policy_revision == 2


def test_an_earlier_revision_cannot_be_begun_with(finance, agent):
    earlier = revise_later(agent).number
    revise(agent, "{}")

    answer = finance.client.get(f"{address(EDITOR, agent.id)}?from={earlier}")

    assert (answer.status_code, WHY in str(*get_messages(answer.wsgi_request))) == (302, True)
    assert finance.get(EDITOR, agent.id).status_code == 200


def test_the_second_person_is_told_so_and_cannot_confirm(finance, superuser, settings, agent):
    settings.FOUR_EYES = True
    asked_by = User.objects.get(username=finance.name)
    more = Limits(Decimal(99), Decimal(99), Decimal(999))
    present = PolicyRevision.objects.get(agent=agent)
    propose_policy(present, more, shown=[], reason="Ticket 7", by=asked_by)
    request = ChangeRequest.objects.get(subject=agent.id)
    arguments = {**request.arguments, "revision": revise_later(agent).number}
    ChangeRequest.objects.filter(pk=request.pk).update(arguments=arguments)

    page = superuser.get("staff_changerequest_change", str(request.pk)).content.decode()

    assert (WHY in page, "<ins>" in page) == (True, False)
    with pytest.raises(OperationRefused, match="does not know the limit moonPhase"):
        confirm(request.pk, by=User.objects.get(username=superuser.name))

"""While both releases run: one that knows no optional limits decides nothing for an agent that has some."""

import importlib
import json
from decimal import Decimal

import pytest
from django.db import OperationalError, connection, transaction

from foundation.kernel.errors import OperationRefused
from policy.limits import Limits
from policy.models import Agent, PolicyRevision
from policy.more_limits import MoreLimits
from policy.operations import set_policy
from tests.support.api import Api
from tests.support.factories import make_agent, make_api_key, make_service
from tests.support.trees import make_child

pytestmark = pytest.mark.django_db
ASK_FIRST = importlib.import_module("payments.migrations.0020_limits_of_later").ASK_FIRST
ASK_FOR_MORE = importlib.import_module("payments.migrations.0022_trees_of_later").ASK_FOR_MORE_FIRST
# What release 0.3 has left in the database; here it only leaves a trace.
_OF_BEFORE = """
    CREATE FUNCTION payments_record_batch(p1 json, p2 json, p3 json, p4 json, p5 json, p6 json) RETURNS void
    LANGUAGE sql AS $$ SELECT set_config('allowance.recorded', 'yes', true) $$
"""


def run(statement, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchone()[0] if cursor.description else None


def record_as_before(agent):
    agents = json.dumps([{"id": agent.id}])
    run("SELECT payments_record_batch('[]', %s, '[]', '[]', '[]', '[]')", agents)
    return run("SELECT current_setting('allowance.recorded', true)")


@pytest.fixture(autouse=True)
def _release_before():
    run(_OF_BEFORE)
    run(ASK_FIRST)
    run(ASK_FIRST)  # as after an interruption
    run(ASK_FOR_MORE)


def test_it_goes_on_for_an_agent_without_optional_limits():
    assert record_as_before(make_agent()) == "yes"


def test_it_records_nothing_for_an_agent_with_some():
    with pytest.raises(OperationalError, match="does not know the limits"):
        record_as_before(make_agent(hourly_limit=Decimal(5)))


def test_it_records_nothing_for_an_agent_with_others_below_or_above():
    root = make_agent()
    child = make_child(root)

    for agent in (root, child):
        with pytest.raises(OperationalError, match="does not know the limits"), transaction.atomic():
            record_as_before(agent)


def test_a_policy_that_it_changes_keeps_the_optional_limits():
    agent = make_agent(payments_per_day=5)
    present = PolicyRevision.objects.get(agent=agent, number=1)

    made = PolicyRevision.objects.create(
        agent=agent, number=2, max_per_payment=1, daily_limit=1, weekly_limit=1, created_by="release 0.3",
        created_at=present.created_at,
    )  # fmt: skip

    made.refresh_from_db()
    assert (made.more_json, made.counts_payments) == (present.more_json, True)


def test_this_release_takes_them_away():
    agent = make_agent(payments_per_day=5)

    revision = set_policy(agent.id, change=lambda _present: Limits(Decimal(1), Decimal(1), Decimal(1)), by="test")

    assert (revision.more, revision.counts_payments) == (MoreLimits(), False)


def test_what_a_policy_of_a_later_release_says_is_neither_guessed_nor_paid_by():
    agent, service = make_agent(), make_service()
    present = PolicyRevision.objects.get(agent=agent, number=1)
    PolicyRevision.objects.create(
        agent=agent, number=2, max_per_payment=1, daily_limit=1, weekly_limit=1, created_by="a later release",
        more_json='{"moonPhase":"full"}', created_at=present.created_at,
    )  # fmt: skip
    Agent.objects.filter(pk=agent.pk).update(policy_revision=2)
    api = Api(make_api_key(agent=agent))
    body = {"agentId": agent.id, "service": service.id, "amount": "1", "asset": "USDC", "reason": "A test"}

    answers = [api.pay(body), api.get("/v1/me"), api.get(f"/v1/agents/{agent.id}/budget")]

    assert {(one.status_code, one.json()["error"]["code"]) for one in answers} == {(503, "policy_signer_unavailable")}
    with pytest.raises(OperationRefused, match="does not know the limit moonPhase"):
        set_policy(agent.id, change=lambda before: before, by="test")

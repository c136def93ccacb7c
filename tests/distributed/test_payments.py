"""Agents pay on a cluster as they do on one server: limits hold, keys pay once, all settles, and the log proves it."""

import json
from collections import Counter
from decimal import Decimal
from io import StringIO

import pytest
from django.core.management import call_command

from foundation import groups
from ledger.models import LogEntry
from payments.models import Payment
from policy.models import Agent
from tests.distributed.storming import agent_in_each_group, check_there, read, shots_of
from tests.support.factories import make_agent, make_api_key, make_service
from tests.support.invariants import check_nonces
from tests.support.kills import wait_until
from tests.support.local_ids import LOCALNET
from tests.support.storms import Shot, strike
from tests.support.trees import make_child

pytestmark = pytest.mark.long(60)


def test_agents_of_all_groups_pay_at_once_and_no_limit_is_passed(house):
    agents = agent_in_each_group(daily_limit="7", max_per_payment="1")
    service, key = make_service(), make_api_key()

    answers = strike([shot for agent in agents.values() for shot in shots_of(house, agent.pk, service.pk, key, 12)])

    assert Counter(one.status for one in answers) == {201: 7 * len(agents), 422: 5 * len(agents)}
    for group, agent in agents.items():
        with groups.within(group):
            assert Payment.objects.filter(agent=agent).count() == 7
            check_there(agent.pk)


def test_one_key_pays_once_however_often_and_wherever_it_is_sent(house):
    agent, service, key = make_agent(), make_service(), make_api_key()
    shots = shots_of(house, agent.pk, service.pk, key, 2)

    answers = strike([Shot(shot.url, key, shots[0].idempotency_key, shots[0].body) for shot in shots * 15])

    assert {one.status for one in answers} == {201}
    assert len({json.loads(one.text)["id"] for one in answers}) == 1
    with groups.within_group_of(agent.pk):
        assert Payment.objects.filter(agent=agent).count() == 1


def test_a_tree_of_budgets_is_together_and_its_root_holds_for_all(house):
    root = make_agent(daily_limit="5", max_per_payment="1")
    children = [make_child(root, daily_limit="50", max_per_payment="1") for _ in range(4)]
    service, key = make_service(), make_api_key()

    answers = strike([shot for child in children for shot in shots_of(house, child.pk, service.pk, key, 5)])

    assert {groups.group_of(child.pk) for child in children} == {groups.group_of(root.pk)}
    assert Counter(one.status for one in answers)[201] == 5


def test_what_is_approved_is_settled_by_relayers_of_its_own_group(before, house):
    agents = agent_in_each_group()
    service, key = make_service(), make_api_key()

    answers = strike([shot for agent in agents.values() for shot in shots_of(house, agent.pk, service.pk, key, 4)])

    ids = [json.loads(one.text)["id"] for one in answers]
    wait_until(lambda: all(read(house, key, f"payments/{one}")["status"] == "settled" for one in ids), "all settled")
    relayers: set[int] = set()
    for group in groups.every_group():
        with groups.within(group):
            check_nonces(LOCALNET, since=before.ended_at)
            own = set(Payment.objects.filter(pk__in=ids).values_list("settlements__relayer__number", flat=True))
            assert own
            assert not relayers & own
            relayers |= own


def test_lists_of_all_agents_are_merged_newest_first_and_their_cursors_hold(house):
    agents = agent_in_each_group()
    service, key = make_service(), make_api_key()
    strike([shot for agent in agents.values() for shot in shots_of(house, agent.pk, service.pk, key, 3)])

    for what in ("logs", "payments"):
        pages: list[str] = []
        cursor = ""
        while len(pages) < 20:
            page = read(house, key, f"{what}?limit=5{cursor}")
            pages += [one["id"] for one in page["data"]]
            cursor = f"&cursor={page['nextCursor']}"
        assert pages == sorted(set(pages), reverse=True)


def test_reads_by_id_find_what_is_in_any_group(house):
    agent, service, key = make_agent(), make_service(), make_api_key()
    (answer,) = strike(shots_of(house, agent.pk, service.pk, key, 1))
    payment = json.loads(answer.text)

    entry = read(house, key, f"payments/{payment['id']}")["logId"]

    assert read(house, key, f"logs/{entry}")["paymentId"] == payment["id"]
    assert read(house, key, f"agents/{agent.pk}/budget")["spentToday"] == "1.00"


def test_the_log_verifies(house):
    agent, service, key = make_agent(), make_service(), make_api_key()
    strike(shots_of(house, agent.pk, service.pk, key, 5))

    call_command("verify_log", "--agent", agent.pk, stdout=StringIO())  # raises if anything is wrong

    with groups.within_group_of(agent.pk):
        assert LogEntry.objects.filter(agent=agent).count() == 5
        assert Agent.objects.get(pk=agent.pk).balance == Decimal(995)

"""While a server is away: what staff see and do, what a monitor reads, and that a stolen key is revoked."""

import time
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import DatabaseError
from django.test import Client

from foundation import groups
from operators.metrics.exposition import read_metrics
from policy.key_operations import create_api_key, rotate_api_key
from policy.models import ApiKey
from tests.distributed.storming import agent_in_each_group, groups_on, pay, wait_until_all_pay
from tests.support.factories import make_api_key, make_service, new_name
from tests.support.kills import wait_until

pytestmark = pytest.mark.long(120)
PLENTY = {"daily_limit": "900", "weekly_limit": "900"}
OLDEST_STATE_S = 16  # `CHAIN_STATE_MAX_AGE_S` of the house, and one
# A part of a sum would pass for the sum.
SUMS = ["pool_promised", "books_imbalance", "gas_spent_24h", "settlements_open", "webhook_deliveries"]
OTHERS = ["reconciliation_drift", "deposits_aside", "chain_stopped", "node_contradicts", "part_ready", "alarms_open"]
PAGES = [
    "", "policy/signerswitch/", "payments/chainstate/", "policy/agent/", "backoffice/alarm/", "payments/payment/",
]  # fmt: skip
PAGES_OF_AN_AGENT = ["change", "policy", "tree"]


@pytest.mark.parametrize("way", ["lost", "cut_off"])
def test_staff_reach_what_stops_payments_and_a_monitor_reads_what_is_known(house, nodes, way):
    browser = Client(SERVER_NAME="localhost", raise_request_exception=False)
    browser.force_login(User.objects.create_superuser(new_name("ada"), password="a long enough password"))
    away = groups_on(nodes, "worker1")
    agent = next(agent.pk for group, agent in agent_in_each_group().items() if group not in away)
    pages = [*PAGES, *(f"policy/agent/{agent}/{page}/" for page in PAGES_OF_AN_AGENT)]
    with getattr(nodes, way)("worker1"):
        found = {page: browser.get(f"/console/{page}", follow=True) for page in pages}
        metrics = read_metrics().decode()

    assert {page: answer.status_code for page, answer in found.items()} == dict.fromkeys(pages, 200)
    assert f":{nodes.port('worker1')} does not answer" in found[""].content.decode()
    assert "allowance_database_servers_away 1.0" in metrics
    assert [name for name in (*SUMS, *OTHERS) if f"allowance_{name}{{" in metrics] == OTHERS
    wait_until(lambda: not groups.find_away(), "all servers answer")
    metrics = read_metrics().decode()
    assert "allowance_database_servers_away 0.0" in metrics
    assert [name for name in (*SUMS, *OTHERS) if f"allowance_{name}{{" in metrics] == [*SUMS, *OTHERS]


def test_a_key_is_revoked_while_a_server_is_lost_and_there_once_it_is_back(house, nodes):
    agents, service, away = agent_in_each_group(**PLENTY), make_service(), groups_on(nodes, "worker1")
    (record, stolen), key = create_api_key(by="ann"), make_api_key()
    wait_until_all_pay(house, stolen, agents, service.pk)

    with nodes.lost("worker1"):
        call_command("revoke_api_key", record.pk, reason="Stolen", stdout=StringIO())

        answers = {group: pay(house, stolen, agent.pk, service.pk).status_code for group, agent in agents.items()}
        assert {answers[group] for group in answers if group not in away} == {401}
        assert {answers[group] for group in away} <= {401, 503}
        time.sleep(OLDEST_STATE_S)  # what the watcher saw before is no longer believed
    # It is back, and believes in the key until it is told; before that it pays for nobody.
    for _ in range(20):
        assert {pay(house, stolen, agents[group].pk, service.pk).status_code for group in away} <= {401, 503}
    wait_until_all_pay(house, key, agents, service.pk)
    assert {pay(house, stolen, agent.pk, service.pk).status_code for agent in agents.values()} == {401}
    for group in agents:
        with groups.within(group):
            assert ApiKey.objects.get(pk=record.pk).revoked_at is not None


def test_what_every_server_has_is_changed_on_all_of_them_or_on_none(house, nodes):
    agents, service = agent_in_each_group(**PLENTY), make_service()
    record, key = create_api_key(by="ann")
    with nodes.lost("worker1"), pytest.raises(DatabaseError):
        rotate_api_key(record.pk, by="ann", reason="It is old")

    wait_until_all_pay(house, key, agents, service.pk)
    assert ApiKey.objects.get(pk=record.pk).expires_at is None

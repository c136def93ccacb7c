"""What was decided on one server is there on several: each answer, each proof, and what waits goes on."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from foundation import groups
from ledger.models import HoldAnswer, LogEntry
from payments.holding.answering import answer_hold
from payments.models import Payment, Withdrawal
from payments.reconciling import settled_payments
from payments.reconciling.reconciliation import reconcile
from payments.reconciling.spread_rows import find_misplaced, find_repeated
from policy.models import Agent
from services.served_chains import served_chains
from tests.distributed.before import PAID, make_payee_on_solana
from tests.distributed.storming import check_there, pay, read
from tests.support.factories import make_api_key, make_service
from tests.support.kills import wait_until
from tests.support.local_ids import LOCALNET
from tests.support.storms import Shot, strike

pytestmark = pytest.mark.long(60)


def test_who_asks_again_gets_the_answer_that_was_given_on_one_server(before, house):
    webs = [house.url("web"), house.url("web-2")]
    shots = [Shot(webs[n % 2], one.api_key, one.idempotency_key, one.body) for n, one in enumerate(before.shots)]

    answers = sorted(strike(shots), key=lambda one: one.index)

    assert {one.status for one in answers} == {201}
    assert [json.loads(one.text)["id"] for one in answers] == list(before.told)
    for agent in before.agents:
        with groups.within_group_of(agent.pk):
            assert Payment.objects.filter(agent=agent).count() == PAID
            check_there(agent.pk)


@pytest.mark.parametrize("make_payee", [make_service, make_payee_on_solana])
def test_agents_of_one_server_are_spread_over_the_groups_and_go_on_paying(before, house, make_payee):
    key, service = make_api_key(), make_payee()
    assert len({groups.group_of(agent.pk) for agent in before.agents}) > 3

    for agent in before.agents:  # once the watcher has seen the payee
        wait_until(lambda: pay(house, key, agent.pk, service.pk).status_code == 201, f"{agent} pays")  # noqa: B023

    states = Payment.objects.filter(service=service).order_by().values_list("status", flat=True)
    wait_until(lambda: set(groups.read_of(None, states.all)) == {"settled"}, "all are settled", patience_s=90)
    assert len(groups.read_of(None, states.all)) >= len(before.agents)


def test_a_payment_that_waited_for_approval_on_one_server_is_approved_on_several(before, house):
    key = make_api_key()
    assert read(house, key, f"payments/{before.held}")["status"] == "pending_approval"

    answer_hold(before.held, HoldAnswer.APPROVE, by="ann", reason="R")

    wait_until(lambda: read(house, key, f"payments/{before.held}")["status"] == "settled", "it is settled")


def test_the_proofs_and_the_books_of_one_server_hold_on_several(before, house, monkeypatch):
    monkeypatch.setattr(settled_payments, "SETTLED_FOR", timedelta(0))  # each settled payment is due to be checked
    call_command("verify_log", stdout=StringIO())  # raises if anything is wrong
    rows = reconcile(LOCALNET, served_chains()[LOCALNET], is_thorough=True)

    assert {row.verdict for row in rows} <= {"ok", "surplus"}
    assert sum(row.receipts_checked for row in rows) >= len(before.told) // 2  # those on this chain
    assert all(row.unconfirmed == [] for row in rows)
    assert Withdrawal.objects.filter(agent=before.agents[0]).exists()


def test_an_agent_that_is_in_two_groups_and_an_id_that_is_twice_are_found(before, house):
    """A thief who has the database may write rows past all that this product does."""
    agent = before.agents[0]
    first = groups.group_of(agent.pk)
    second = next(group for group in groups.every_group() if group != first)
    with groups.within(first):
        entry = LogEntry.objects.filter(agent=agent)[0]
    with groups.within(second):
        Agent.objects.bulk_create([agent])
        LogEntry.objects.bulk_create([entry])
    try:
        assert [one.agent_id for one in find_misplaced()] == [agent.pk]
        assert [one.problem for one in find_repeated()] == [f"{entry.pk} is an id of {agent.pk}, too."]
        with pytest.raises(CommandError, match="2 problems"):
            call_command("verify_log", stdout=StringIO(), stderr=StringIO())
    finally:
        with groups.within(second), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")  # no trigger keeps it
            cursor.execute("DELETE FROM ledger_logentry WHERE id = %s", [entry.pk])
            cursor.execute("DELETE FROM policy_agent WHERE id = %s", [agent.pk])

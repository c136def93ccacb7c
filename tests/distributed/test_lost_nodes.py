"""A server of the cluster is lost in the middle of a storm: no answered decision is, and who is elsewhere goes on."""

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal

import pytest
from django.db import DatabaseError, OperationalError, connections

from foundation import groups
from ledger.models import BalanceMovement, MovementKind
from payments.funding.withdrawals import book_withdrawal
from payments.models import ChainState, Payment, Withdrawal
from payments.settling.chain_switch import start_signing_on, stop_signing_on
from policy.models import SignerSwitch
from policy.operations import switch_signer
from tests.distributed.nodes import Nodes
from tests.distributed.storming import (
    agent_in_each_group,
    check_there,
    groups_on,
    pay,
    read,
    shots_of,
    storm_while,
    strike_until_answered,
    wait_until_all_pay,
)
from tests.support.factories import make_api_key, make_service, new_address
from tests.support.kills import wait_until
from tests.support.local_ids import LOCALNET

pytestmark = pytest.mark.long(120)
LIMIT = 40
PLENTY = {"daily_limit": "900", "weekly_limit": "900"}


def test_agents_of_a_lost_worker_get_503_and_all_others_go_on(house, nodes):
    agents, service, key = agent_in_each_group(**PLENTY), make_service(), make_api_key()
    lost = groups_on(nodes, "worker1")
    wait_until_all_pay(house, key, agents, service.pk)
    nodes.kill("worker1")
    try:
        began = time.monotonic()
        # Longer than what is seen of a chain is believed.
        while time.monotonic() - began < 40:
            for group, agent in agents.items():
                answer = pay(house, key, agent.pk, service.pk)
                time.sleep(0.2)
                assert answer.status_code == (503 if group in lost else 201), (group in lost, answer.text)
    finally:
        nodes.start("worker1")

    wait_until_all_pay(house, key, agents, service.pk)
    for group, agent in agents.items():
        with groups.within(group):
            check_there(agent.pk)


@pytest.mark.parametrize("name", ["worker1", "coordinator"])
def test_no_answered_decision_is_lost_with_a_server_and_no_key_pays_twice(house, nodes, name):
    agents = agent_in_each_group(daily_limit=str(LIMIT), max_per_payment="1")
    service, key = make_service(), make_api_key()
    shots = [shot for agent in agents.values() for shot in shots_of(house, agent.pk, service.pk, key, 60)]

    answers = storm_while(shots, lambda: lose(nodes, name))
    again = strike_until_answered(shots)

    told = {one.index: json.loads(one.text)["id"] for one in answers if one.status == 201}
    assert {index: json.loads(again[index].text)["id"] for index in told} == told
    assert Counter(one.status for one in again.values()) == {201: LIMIT * len(agents), 422: 20 * len(agents)}
    for group, agent in agents.items():
        with groups.within(group):
            assert Payment.objects.filter(agent=agent).count() == LIMIT
            check_there(agent.pk)
    one = next(iter(told.values()))
    wait_until(lambda: read(house, key, f"payments/{one}")["status"] == "settled", "it is settled", patience_s=90)


def test_a_worker_that_is_cut_off_keeps_nobody_else_waiting(house, nodes):
    agents, service, key = agent_in_each_group(), make_service(), make_api_key()
    lost = groups_on(nodes, "worker2")

    there = next(agent for group, agent in agents.items() if group in lost)
    wait_until_all_pay(house, key, agents, service.pk)
    with nodes.cut_off("worker2"):
        assert pay(house, key, there.pk, service.pk).status_code == 503
        for _ in range(6):
            for group, agent in agents.items():
                assert pay(house, key, agent.pk, service.pk).status_code == (503 if group in lost else 201)
            time.sleep(3)  # in all longer than what is seen of a chain is believed

    wait_until(lambda: pay(house, key, there.pk, service.pk).status_code == 201, "it pays again")


def test_what_is_written_in_a_group_and_on_the_coordinator_is_on_both_after_a_crash_or_on_neither(house, nodes):
    lost = groups_on(nodes, "worker1")
    agents = [agent for group, agent in agent_in_each_group().items() if group in lost]

    with ThreadPoolExecutor(2 * len(agents)) as threads:
        booking = [threads.submit(book_until_it_fails, agent.pk) for agent in agents * 2]
        wait_until(lambda: Withdrawal.objects.filter(agent__in=agents).count() > 5 * len(agents), "some are booked")
        nodes.kill("worker1")
        nodes.start("worker1")
        for one in booking:
            one.result()
    for name in nodes.names():
        with nodes.connect(name) as own:  # as each server does by itself once in a minute
            own.execute("SELECT recover_prepared_transactions()")

    wait_until(lambda: not groups.find_away(), "all servers answer")
    for agent in agents:
        booked = set(Withdrawal.objects.filter(agent=agent).values_list("movement_id", flat=True))
        with groups.within_group_of(agent.pk):
            moved = BalanceMovement.objects.filter(agent=agent, kind=MovementKind.WITHDRAWAL)
            assert set(moved.values_list("pk", flat=True)) == booked


def book_until_it_fails(agent: str) -> None:
    with suppress(DatabaseError):
        while True:
            book_withdrawal(agent, amount=Decimal("0.1"), chain=LOCALNET, recipient=new_address(), by="ann", reason="R")
    connections.close_all()


def lose(nodes: Nodes, name: str) -> None:
    """Kill a server, and start it again some seconds later."""
    nodes.kill(name)
    time.sleep(3)
    nodes.start(name)


@pytest.mark.parametrize("what", ["chain", "signer"])
def test_what_is_stopped_while_a_worker_is_lost_is_stopped_there_once_it_is_back(house, nodes, what):
    agents, service, key = agent_in_each_group(**PLENTY), make_service(), make_api_key()
    lost = groups_on(nodes, "worker1")
    wait_until_all_pay(house, key, agents, service.pk)
    nodes.kill("worker1")
    try:
        stop(what)
        others = [agent for group, agent in agents.items() if group not in lost]
        assert {pay(house, key, agent.pk, service.pk).status_code for agent in others} == {503}
    finally:
        nodes.start("worker1")
    try:
        for group in lost:
            wait_until(lambda: is_told(what, group), f"{group} is told")  # noqa: B023
        assert {pay(house, key, agent.pk, service.pk).status_code for agent in agents.values()} == {503}
    finally:
        start(what)
    wait_until_all_pay(house, key, agents, service.pk)


def test_what_is_started_while_a_worker_is_lost_is_started_there_once_it_is_back(house, nodes):
    agents, service, key = agent_in_each_group(**PLENTY), make_service(), make_api_key()
    stop("chain")
    nodes.kill("worker1")
    try:
        start("chain")
    finally:
        nodes.start("worker1")

    wait_until_all_pay(house, key, agents, service.pk)


def stop(what: str) -> None:
    if what == "chain":
        stop_signing_on(LOCALNET, by="ann", reason="A key is stolen")
    else:
        switch_signer(is_signing=False, by="ann", reason="A key is stolen")


def start(what: str) -> None:
    if what == "chain":
        start_signing_on(LOCALNET, by="ann")
    else:
        switch_signer(is_signing=True, by="ann")


def is_told(what: str, group: groups.Group) -> bool:
    """Tell whether a group's own copy says that nothing is signed."""
    try:
        with groups.within(group):
            if what == "chain":
                return ChainState.objects.get(pk=LOCALNET).stopped_reason != ""
            return not SignerSwitch.objects.get().is_signing
    except OperationalError:
        return False  # this process leaves the server alone for a while

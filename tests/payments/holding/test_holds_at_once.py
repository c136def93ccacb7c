"""Holds that several people and processes answer and end at the same time; and processes killed in the middle of it."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from celery import current_app
from django.conf import settings

from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement, Hold, HoldAnswer, LogEntry, Result
from payments.holding.answering import answer_hold
from payments.holding.finishing import finish_hold, finish_holds
from payments.models import Payment, Settlement
from policy.models import Agent
from policy.operations import pause_agent
from tests.payments.deciding.test_batches_under_fire import locked, wait_for_a_batch
from tests.support.clocks import problems_of
from tests.support.factories import decide, make_api_key, make_service, new_name
from tests.support.holds import asks_above, environment_at, hold_of, say
from tests.support.house import server_environment
from tests.support.invariants import check_agent
from tests.support.kills import wait_until
from tests.support.scenes import at_once
from tests.support.servers import Servers
from tests.support.storms import Shot, Storm, strike
from tests.support.workers import worker

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(60)]
ROUNDS = 6
THREADS = 6


@pytest.fixture
def agent() -> Agent:
    return asks_above(balance="20")


def held_of(agent: Agent, count: int) -> list[LogEntry]:
    service = make_service()
    return [decide(agent, service, "6") for _ in range(count)]


def try_to(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except OperationRefused as error:
        return error


def assert_ended_once(held: LogEntry) -> LogEntry:
    """Assert that a hold has one end, and a payment, a movement and a transaction if that approves; return it."""
    hold = hold_of(held)
    (final,) = LogEntry.objects.filter(agent=held.agent_id, explanation_json__contains=held.id)
    assert hold.final_entry_id == final.id
    paid = 1 if final.result == Result.APPROVED else 0
    assert Payment.objects.filter(pk=hold.id).count() == paid
    assert BalanceMovement.objects.filter(payment_id=hold.id).count() == paid
    assert Settlement.objects.filter(payments=hold.id).count() == paid
    return final


def assert_sound(agent: Agent) -> None:
    assert problems_of(agent) == []
    check_agent(agent.id)


def test_of_people_who_answer_at_once_one_wins_and_the_others_are_told_so(agent):
    for held in held_of(agent, 3):
        answers = [HoldAnswer.APPROVE, HoldAnswer.DECLINE] * (THREADS // 2)
        acts = [
            partial(answer_hold, held.payment_id, one, by=f"person-{number}", reason="R")
            for number, one in enumerate(answers)
        ]

        told = at_once([partial(try_to, act) for act in acts])

        (won,) = [one for one in told if isinstance(one, Hold)]
        assert (hold_of(held).answer, hold_of(held).answered_by) == (won.answer, won.answered_by)
        word = HoldAnswer(won.answer).label
        refusals = [str(one) for one in told if isinstance(one, OperationRefused)]
        assert refusals == [f"{won.answered_by} has {word} this payment already."] * (THREADS - 1)
        finish_holds(environment_at())
        assert (assert_ended_once(held).result == Result.APPROVED) == (won.answer == HoldAnswer.APPROVE)
    assert_sound(agent)


def test_an_answer_and_its_expiry_at_once_end_it_once_and_what_was_answered_holds(agent):
    (held,) = held_of(agent, 1)
    for _ in range(ROUNDS):
        now = utc_now()
        Hold.objects.filter(pk=held.payment_id).update(expires_at=now + timedelta(milliseconds=20))
        acts = [partial(try_to, partial(say, held, by=f"person-{number}")) for number in range(2)]
        acts += [partial(finish_when_over, held) for _ in range(2)]
        at_once(acts)
        final = assert_ended_once(held)
        answered = hold_of(held).answer == HoldAnswer.APPROVE
        assert (final.result == Result.APPROVED) == answered
        (held,) = held_of(agent, 1) if Agent.objects.get(pk=agent.pk).balance > 6 else held_of(asks_above(), 1)


def finish_when_over(held: LogEntry) -> None:
    wait_until(lambda: finish_hold(str(held.payment_id), environment_at()) or hold_of(held).ended_at, "it has ended")


def test_pausing_and_approving_at_once_end_it_once(agent):
    for _ in range(ROUNDS):
        agent = asks_above()
        (held,) = held_of(agent, 1)
        say(held)
        at_once(
            [
                partial(pause_agent, agent.id, by="ann"),
                partial(finish_hold, str(held.payment_id), environment_at()),
                partial(finish_hold, str(held.payment_id), environment_at()),
            ]
        )
        finish_holds(environment_at())
        assert assert_ended_once(held).rule in ("under_max_payment", "agent_active")
        assert_sound(agent)


# --- Processes --------------------------------------------------------------------------------------------------------
@contextmanager
def finishers(count: int, payments: list[str]) -> Iterator[list["subprocess.Popen[str]"]]:
    """Start processes that are ready to end payments."""
    command = [sys.executable, "-m", "tests.support.finisher", *payments]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [
        subprocess.Popen(command, cwd=settings.BASE_DIR, env=server_environment(), **pipes) for _ in range(count)
    ]
    try:
        for one in started:
            assert one.stdout
            assert one.stdout.readline() == "ready\n"
        yield started
    finally:
        for one in started:
            one.kill()
            one.communicate()


def go(process: "subprocess.Popen[str]") -> None:
    assert process.stdin
    process.stdin.write("go\n")
    process.stdin.flush()


def test_of_two_processes_that_end_the_same_payments_one_decides_each(agent):
    helds = held_of(agent, 3)
    for held in helds:
        say(held)
    with finishers(2, [str(held.payment_id) for held in helds]) as processes:
        for process in processes:
            go(process)
        made = Counter(entry for process in processes for entry in json.loads(process.communicate(timeout=60)[0]))

    assert sorted(made) == sorted(assert_ended_once(held).id for held in helds)
    assert set(made.values()) == {1}
    assert Agent.objects.get(pk=agent.pk).balance == 2
    assert_sound(agent)


@pytest.mark.parametrize(
    ("lock", "statement", "is_decided"),
    [
        ("LOCK TABLE ledger_balancemovement IN SHARE MODE", "%payments_record%", False),
        ("LOCK TABLE ledger_hold IN SHARE MODE", '%UPDATE "ledger_hold"%', False),
        ("SELECT FROM services_service WHERE id = '{service}' FOR UPDATE", "COMMIT", True),
    ],
    ids=["recording", "ending", "committing"],
)
def test_a_process_that_is_killed_while_it_ends_a_payment_loses_and_repeats_nothing(agent, lock, statement, is_decided):
    (held,) = held_of(agent, 1)
    say(held)
    with finishers(1, [str(held.payment_id)]) as (process,), locked(lock.format(service=held.service)) as session:
        go(process)
        wait_for_a_batch(session, statement)
        process.kill()
        process.wait()
    wait_until(lambda: not is_working(held.agent_id), "the database has noticed")
    assert (hold_of(held).ended_at is not None) == is_decided
    assert Payment.objects.filter(agent=agent).count() == is_decided

    finish_holds(environment_at())

    assert assert_ended_once(held).result == Result.APPROVED
    assert_sound(agent)


def is_working(agent_id: str) -> bool:
    """Tell whether somebody has an agent locked."""
    with psycopg.connect(server_environment()["DATABASE_URL"]) as session:
        free = session.execute("SELECT FROM policy_agent WHERE id = %s FOR UPDATE SKIP LOCKED", [agent_id])
        return free.fetchone() is None


def test_a_worker_that_is_killed_in_the_middle_has_a_successor(agent, tmp_path):
    (held,) = held_of(agent, 1)
    say(held)
    with worker(tmp_path, "worker") as house:
        with locked("LOCK TABLE ledger_balancemovement IN SHARE MODE") as session:
            current_app.send_task("payments.tasks.end_holds", expires=60)
            wait_for_a_batch(session, "%payments_record%")
            house.kill("worker")
        assert hold_of(held).ended_at is None
        house.again("worker")
        house.wait_for("worker")
        # The lease of the one that died is free again after a while.
        wait_until(partial(ring_until_ended, held), "the payment is decided")

    assert assert_ended_once(held).result == Result.APPROVED
    assert_sound(agent)


def ring_until_ended(held: LogEntry) -> bool:
    current_app.send_task("payments.tasks.end_holds", expires=5)
    return hold_of(held).ended_at is not None


@pytest.mark.parametrize(
    ("lock", "statement"),
    [
        ("LOCK TABLE ledger_hold IN SHARE MODE", '%INSERT INTO "ledger_hold"%'),
        ("LOCK TABLE ledger_logentry IN SHARE MODE", "%payments_record%"),
    ],
    ids=["holding", "recording"],
)
def test_a_web_server_that_is_killed_while_it_holds_a_payment_loses_and_repeats_nothing(agent, lock, statement):
    body = {"agentId": agent.id, "service": make_service().id, "amount": "6.00", "asset": "USDC", "reason": "A test"}
    api_key, keys = make_api_key(), [new_name("key") for _ in range(3)]
    with Servers(count=2) as servers:
        first, second = ([Shot(url, api_key, key, body) for key in keys] for url in servers.urls)
        with locked(lock) as session:
            storm = Storm(first, processes=1, threads=3)
            wait_for_a_batch(session, statement)
            servers.kill("web-1")
        assert {answer.status for answer in storm} == {0}
        assert not LogEntry.objects.filter(agent=agent).exists()
        assert not Hold.objects.filter(agent=agent).exists()

        again, repeated = strike(second), strike(second)

    assert [answer.status for answer in again] == [202] * 3
    assert [answer.text for answer in again] == [answer.text for answer in repeated]
    assert Hold.objects.filter(agent=agent, ended_at=None).count() == 3
    assert Agent.objects.get(pk=agent.pk).balance == 20
    assert problems_of(agent) == []

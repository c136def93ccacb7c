"""All servers lose their disks and are restored up to one moment: what was answered is there, the rest is booked."""

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from foundation import groups
from payments.funding.expected_holdings import books, find_imbalances
from payments.lifecycle import PaymentStatus
from payments.models import Payment
from payments.settling.chain_switch import start_signing_on
from tests.distributed.backups import archived, back_up, lose_and_restore
from tests.distributed.conftest import start
from tests.distributed.storming import (
    agent_in_each_group,
    groups_on,
    move_money,
    pay,
    repeating,
    shots_of,
    strike_until_answered,
    wait_until_all_pay,
)
from tests.support.factories import make_api_key, make_service
from tests.support.house import House
from tests.support.kills import wait_until
from tests.support.local_ids import LOCALNET
from tests.support.storms import Shot, strike

pytestmark = pytest.mark.long(120)
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'pg_dist_transaction'::regclass"


def test_a_cluster_is_restored_up_to_one_moment_on_all_its_servers(nodes, tmp_path):
    agents, service, key = agent_in_each_group(daily_limit="900", weekly_limit="900"), make_service(), make_api_key()
    with House(environment=dict(os.environ)) as house, archived(nodes):
        start(house)
        wait_until_all_pay(house, key, agents, service.pk)
        before, meanwhile, after = (
            [shot for agent in agents.values() for shot in shots_of(house, agent.pk, service.pk, key, 6)] for _ in "123"
        )
        back_up(nodes)
        told = ids(before)
        with repeating(strike, meanwhile), repeating(move_money, agents):
            moment = command("restore_point")["restorePoint"]
        ids(after)
        paid = Payment.objects.filter(service=service, status=PaymentStatus.SETTLED).order_by().values_list("pk").all
        wait_until(lambda: len(groups.read_of(None, paid)) >= 3 * len(before), "all are settled", patience_s=90)

    forget_sessions()
    lose_and_restore(nodes, moment)
    call_command("migrate", verbosity=0)
    command("distribute")
    assert command("catch_up")["chains"][0]["unknown"] >= len(after)
    booked = book_what_was_forgotten(tmp_path / "keys.csv", [*before, *meanwhile, *after])

    assert len(after) <= booked <= len(after) + len(meanwhile)
    command("reconcile")  # raises if anything is wrong
    assert command("verify_log")["problems"] == []
    with books():
        assert list(find_imbalances()) == []
    start_signing_on(LOCALNET, by="ann")
    with House(environment=dict(os.environ)) as house:
        start(house)
        wait_until_all_pay(house, key, agents, service.pk)
        assert ids([Shot(house.url("web"), one.api_key, one.idempotency_key, one.body) for one in before]) == told
        # The escrow has paid these, and refuses to pay any of them again.
        for one in after:
            assert pay(house, key, one.body["agentId"], service.pk, one.idempotency_key).status_code == 503


def command(name: str, *arguments: str, **options: Any) -> Any:
    output = StringIO()
    call_command(name, *arguments, stdout=output, stderr=StringIO(), **options)
    return json.loads(output.getvalue().strip().rpartition("\n")[2])


def ids(shots: list[Shot]) -> list[str]:
    """Send requests until all are answered with 201; returns the ids of their payments."""
    answers = strike_until_answered(shots)
    assert {one.status for one in answers.values()} == {201}
    return [json.loads(answers[index].text)["id"] for index in range(len(shots))]


def forget_sessions() -> None:
    groups.forget()
    connections.close_all()


def book_what_was_forgotten(keys: Path, shots: Sequence[Shot]) -> int:
    """Book what the chain knows and the cluster does not, by the keys that the agents have kept; returns how many."""
    with pytest.raises(CommandError):
        command("reconcile")
    lines = [f"{one.body['agentId']},{one.idempotency_key}\n" for one in shots]
    keys.write_text("".join(["agent,idempotencyKey\n", *lines]))
    booked = command("book_outflow", all=True, files=[str(keys)], yes=True, reason="Paid after the moment")
    assert booked["notBooked"] == []
    return int(booked["booked"])


def test_a_moment_is_named_while_nothing_is_being_committed_on_several_servers(nodes):
    """What is written in a group and on the coordinator is committed in two phases: the first is held back here."""
    agent = next(agent for group, agent in agent_in_each_group().items() if group in groups_on(nodes, "worker1"))
    with (
        nodes.connect("worker1") as holding, nodes.connect("worker1") as looking, ThreadPoolExecutor(2) as threads,
    ):  # fmt: skip
        holding.execute("BEGIN; LOCK TABLE pg_dist_transaction IN EXCLUSIVE MODE")
        booking = threads.submit(alone, move_money, {agent.pk: agent})
        wait_until(lambda: looking.execute(WAITING).fetchone() == (1,), "the withdrawal waits to be committed")
        naming = threads.submit(alone, command, "restore_point")
        wait_until(lambda: looking.execute(WAITING).fetchone() == (2,), "the moment waits, too")
        holding.execute("COMMIT")
        booking.result()
        assert naming.result()["servers"] == len(nodes.names())


def alone(act: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return act(*arguments)
    finally:
        connections.close_all()

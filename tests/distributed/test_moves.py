"""A server is added while agents pay, and groups move to it: no answer is lost, and no key pays twice."""

import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from io import StringIO

import pytest
from django.core.management import call_command

from foundation import groups
from payments.models import Payment
from tests.distributed.nodes import Nodes
from tests.distributed.storming import (
    agent_in_each_group,
    check_there,
    groups_on,
    read,
    shots_of,
    strike_until_answered,
)
from tests.support.factories import make_api_key, make_service
from tests.support.invariants import check_nonces
from tests.support.kills import wait_until
from tests.support.local_ids import LOCALNET
from tests.support.storms import Shot, strike

pytestmark = pytest.mark.long(180)
LIMIT, AT_ONCE = 150, 6


def spread_over(nodes: Nodes) -> Counter[str]:
    return Counter({name: len(groups_on(nodes, name)) for name in ("worker1", "worker2", "worker3")})


@contextmanager
def paying(shots: list[Shot], told: dict[int, str]) -> Iterator[None]:
    """Send requests, a few at a time, again and again while this block runs; `told` gets the ids of payments."""
    ended = threading.Event()

    def pay() -> None:
        for first in itertools.cycle(range(0, len(shots), AT_ONCE)):
            if ended.is_set():
                return
            for one in strike(shots[first : first + AT_ONCE]):
                if one.status == HTTPStatus.CREATED:
                    told[first + one.index] = json.loads(one.text)["id"]

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(pay)
        try:
            wait_until(lambda: len(told) > AT_ONCE, "the first are paid")
            yield
        finally:
            ended.set()
    running.result()


def test_groups_move_to_a_server_that_is_added_while_agents_pay(before, house, nodes):
    agents = agent_in_each_group(daily_limit=str(LIMIT), weekly_limit="900", max_per_payment="1")
    service, key = make_service(webhook_url="https://hooks.example.com/"), make_api_key()
    of_each = [shots_of(house, agent.pk, service.pk, key, LIMIT + 10) for agent in agents.values()]
    shots = [shot for some in zip(*of_each, strict=True) for shot in some]
    told: dict[int, str] = {}
    nodes.add("worker3")

    with paying(shots, told):
        call_command("distribute", rebalance=True, stdout=StringIO(), stderr=StringIO())
    again = strike_until_answered(shots)

    groups.forget()
    assert spread_over(nodes) == {"worker1": 2, "worker2": 2, "worker3": 2}
    assert {index: json.loads(again[index].text)["id"] for index in told} == told
    assert len(told) > 0
    assert Counter(one.status for one in again.values()) == {201: LIMIT * len(agents), 422: 10 * len(agents)}
    for group, agent in agents.items():
        with groups.within(group):
            assert Payment.objects.filter(agent=agent).count() == LIMIT
            check_there(agent.pk)
            check_nonces(LOCALNET, since=before.ended_at)
    for one in list(told.values())[-5:]:
        wait_until(lambda: read(house, key, f"payments/{one}")["status"] == "settled", "it is settled")  # noqa: B023
    call_command("verify_log", stdout=StringIO())  # raises if anything is wrong

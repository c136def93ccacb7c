"""Requests of payments to the web servers of a house, and agents of each group to make them."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import requests
from django.db import connections

from foundation import groups
from foundation.groups.places import places
from payments.funding.withdrawals import book_withdrawal, cancel_withdrawal
from policy.models import Agent
from tests.distributed.nodes import Nodes
from tests.support.factories import make_agent, new_address, new_name
from tests.support.house import House
from tests.support.invariants import check_agent
from tests.support.kills import wait_until
from tests.support.local_ids import LOCALNET
from tests.support.storms import Answer, Shot, Storm, strike


def shots_of(house: House, agent: str, service: str, key: str, count: int) -> list[Shot]:
    """Make requests of 1 USDC by an agent, half of them at each web server."""
    body = {"agentId": agent, "service": service, "amount": "1", "asset": "USDC", "reason": "A storm"}
    webs = [house.url("web"), house.url("web-2")]
    prefix = new_name("storm")
    return [Shot(webs[n % 2], key, f"{prefix}-{n}", body) for n in range(count)]


def agent_in_each_group(**limits: Any) -> dict[groups.Group, Agent]:
    found: dict[groups.Group, Agent] = {}
    while len(found) < len(groups.every_group()):
        agent = make_agent(**limits)
        found.setdefault(groups.group_of(agent.pk), agent)
    return found


def read(house: House, key: str, path: str) -> Any:
    """Read an address of the API; it has to answer with 200."""
    answer = requests.get(f"{house.url('web')}/v1/{path}", headers={"Authorization": f"Bearer {key}"}, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


def pay(house: House, key: str, agent: str, service: str, name: str = "") -> requests.Response:
    """Request a payment of 1 USDC once."""
    body = {"agentId": agent, "service": service, "amount": "1", "asset": "USDC", "reason": "Once"}
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": name or new_name("key")}
    return requests.post(f"{house.url('web')}/v1/payments/request", json=body, headers=headers, timeout=60)


def wait_until_all_pay(house: House, key: str, agents: dict[groups.Group, Agent], service: str) -> None:
    for agent in agents.values():
        wait_until(lambda: pay(house, key, agent.pk, service).status_code == 201, f"{agent} pays")  # noqa: B023


def groups_on(nodes: Nodes, name: str) -> set[groups.Group]:
    port = nodes.port(name)
    groups.every_group()
    return {group for group, place in places._places.items() if place is not None and place[1] == port}


def strike_until_answered(shots: list[Shot]) -> dict[int, Answer]:
    """Repeat requests until each has an answer that says more than to try again."""
    found: dict[int, Answer] = {}
    deadline = time.monotonic() + 120
    while len(found) < len(shots):
        assert time.monotonic() < deadline, f"{len(shots) - len(found)} are without an answer"
        missing = [index for index in range(len(shots)) if index not in found]
        for one in strike([shots[index] for index in missing]):
            if one.status not in {0, 503, 500, 429}:
                found[missing[one.index]] = one
    return found


def storm_while(shots: list[Shot], act: Callable[[], None]) -> list[Answer]:
    """Let a storm begin, do something in the middle of it, and return its answers."""
    storm = iter(Storm(shots))
    answers = [next(storm) for _ in range(len(shots) // 4)]
    acting = threading.Thread(target=act)
    acting.start()
    answers += storm
    acting.join()
    return answers


def check_there(agent_id: str) -> None:
    """Check what is recorded of an agent, as of one moment, within its group: its payments may be settled meanwhile."""
    with groups.within_group_of(agent_id), groups.snapshot():
        check_agent(agent_id)


def move_money(agents: dict[groups.Group, Agent]) -> None:
    """Book withdrawals in all groups, and cancel them: rows of the coordinator and of a group change together."""
    for agent in agents.values():
        kept = book_withdrawal(
            agent.pk, amount=Decimal(1), chain=LOCALNET, recipient=new_address(), by="ann", reason="R"
        )
        cancel_withdrawal(kept.reference, by="ann", reason="R")


@contextmanager
def repeating(act: Callable[..., object], *arguments: object) -> Iterator[None]:
    """Do something again and again in another thread while this block runs; it has to be done once at least."""
    ended, done = threading.Event(), threading.Event()

    def repeat() -> None:
        while not ended.is_set():
            act(*arguments)
            done.set()
        connections.close_all()

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(repeat)
        try:
            yield
            assert done.wait(60)
        finally:
            ended.set()
    running.result()

"""Requests of payments to the web servers of a house, and agents of each group to make them."""

from typing import Any

import requests

from foundation import groups
from policy.models import Agent
from tests.support.factories import make_agent, new_name
from tests.support.house import House
from tests.support.storms import Shot


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

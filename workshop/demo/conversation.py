"""A model talks to the process `mcp` by the official package's client: it pays, forgets that, and asks anew."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx2
import requests
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from workshop.demo.promises import Order
from workshop.demo.screen import Screen

_PATIENCE_S = 60
_POLL_S = 0.1
_TOOLS = {
    "request_payment",
    "pay_402",
    "evaluate_payment",
    "get_budget",
    "list_services",
    "get_payment",
    "list_decisions",
}


def converse(screen: Screen, url: str, key: str, order: Order, check_processes: Callable[[], None]) -> None:
    """Play what a model does that has nothing but its tools; `key` is bound to the agent of the order."""
    _wait_until_it_answers(url, check_processes)
    asyncio.run(_converse(screen, url, key, order))


async def _converse(screen: Screen, url: str, key: str, order: Order) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=_PATIENCE_S, trust_env=False) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        await _ask_for_tools(screen, client, order.agent)
        first = await _pay(screen, client, order)
        await _pay_again(screen, client, order, first)
        await _ask_for_too_much(screen, client, order)


async def _ask_for_tools(screen: Screen, client: Client, agent: str) -> None:
    screen.step(f"A model that acts for {agent} asks for its tools, over MCP", ", ".join(sorted(_TOOLS)))
    names = {tool.name for tool in (await client.list_tools()).tools}
    screen.came(", ".join(sorted(names)), as_promised=names == _TOOLS)


async def _pay(screen: Screen, client: Client, order: Order) -> str:
    screen.step(f"The model has {order.service} paid {order.amount} {order.asset}", "paid; it chose no key")
    said = await _call(client, order.service, order.amount, "One article")
    screen.came(f"{said['status']}, {said.get('payment', {}).get('id')}", as_promised=said["status"] == "paid")
    screen.detail(said["what_to_do"])
    return str(said.get("payment", {}).get("id"))


async def _pay_again(screen: Screen, client: Client, order: Order, first: str) -> None:
    screen.step("The model forgets that, and asks again in other words", "already_paid, the same payment")
    said = await _call(client, order.service, order.amount, "Please buy the article")
    payment = said.get("payment", {}).get("id")
    screen.came(f"{said['status']}, {payment}", as_promised=(said["status"], payment) == ("already_paid", first))
    screen.detail(said["what_to_do"])


async def _ask_for_too_much(screen: Screen, client: Client, order: Order) -> None:
    screen.step("The model asks for more than there is", "refused, rule balance_covers_payment, and what to do next")
    said = await _call(client, order.service, "49.00", "All articles")
    kept = (said["status"], said.get("rule")) == ("refused", "balance_covers_payment") and bool(said["what_to_do"])
    screen.came(f"{said['status']}, rule {said.get('rule')}", as_promised=kept)
    screen.detail(said["what_to_do"])


async def _call(client: Client, service: str, amount: str, reason: str) -> dict[str, Any]:
    asked = {"service": service, "amount": amount, "reason": reason}
    result = await client.call_tool("request_payment", asked)
    return dict(result.structured_content or {})


def _wait_until_it_answers(url: str, check_processes: Callable[[], None]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        check_processes()
        try:
            requests.get(f"{url}/healthz", timeout=_POLL_S * 20).raise_for_status()
        except requests.RequestException:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)
        else:
            return

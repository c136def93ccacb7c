"""The web servers are killed with -9 while models pay: each intent is paid once all the same."""

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.mcp.conftest import Cast
from tests.clients.mcp.talking import Model, tell_at_once
from tests.support.servers import Servers

pytestmark = pytest.mark.long(75)
ROUNDS = 3
DONE = {"paid", "already_paid"}


@pytest.fixture
def lonely(committed: None) -> Iterator[Servers]:
    """One web server, which nothing else stands in for."""
    with Servers() as servers:
        yield servers


async def insist(model: Model, service: str, amount: str) -> str:
    """Ask until the intent is paid, as a model does that is told to call again; in other words each time."""
    for attempt in range(60):
        said = await model.pay(service, amount, f"Attempt {attempt}")
        if said.status in DONE:
            return said.payment_id
        assert (said.status, "exactly the same arguments" in said.content["what_to_do"]) == ("unknown", True)
        await asyncio.sleep(0.2)
    raise TimeoutError(amount)


def test_models_that_insist_while_web_is_killed_pay_each_intent_once(lonely):
    cast = Cast.make(lonely.urls[0])

    async def kill_and_start() -> None:
        await asyncio.sleep(random.uniform(0.01, 0.25))
        await asyncio.to_thread(lonely.kill, "web-1")
        lonely.again("web-1")
        await asyncio.to_thread(lonely.wait_for, "web-1")

    async def story(models: list[Model]) -> list[Any]:
        paid = []
        for number in range(1, ROUNDS + 1):
            calls = [insist(model, cast.service.id, f"0.{number}") for model in models for _ in range(3)]
            *ids, _ = await asyncio.gather(*calls, kill_and_start())
            paid.append({*ids})
        return paid

    paid = tell_at_once([cast.stdio, cast.stdio], story)

    assert [len(ids) for ids in paid] == [1] * ROUNDS
    assert sorted(cast.payments()) == sorted(one for ids in paid for one in ids)
    assert cast.count_entries() == ROUNDS

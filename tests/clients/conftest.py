"""A cast for the client: an agent with its key, a payee, and clients of both faces."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from allowance_client import Allowance, AsyncAllowance

from policy.models import Agent
from services.models import Service
from tests.clients.faces import FACES, Client
from tests.support.factories import make_agent, make_api_key, make_service

Open = Callable[..., Client]


class Customer:
    """An agent, its bound key and a payee: what `pay` needs."""

    def __init__(self, **limits: Any) -> None:
        self.agent: Agent = make_agent(**limits)
        self.service: Service = make_service()
        self.key = make_api_key(agent=self.agent)
        self.wanted = {"service": self.service.id, "amount": "0.50", "asset": "USDC", "reason": "A test"}


@pytest.fixture
def customer(committed: None) -> Customer:
    return Customer()


@pytest.fixture(params=FACES, ids=["blocking", "awaited"])
def face(request: pytest.FixtureRequest) -> type[Allowance] | type[AsyncAllowance]:
    """One face of the client after the other."""
    found: type[Allowance | AsyncAllowance] = request.param
    return found


@pytest.fixture
def open_client(face: type[Allowance] | type[AsyncAllowance]) -> Iterator[Open]:
    """Return a function that opens a client as `Allowance` is opened, for an agent that is named at once."""
    with ExitStack() as stack:
        yield lambda *arguments, **options: stack.enter_context(Client(face, *arguments, **options))

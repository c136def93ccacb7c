"""An agent with a key of its own, a payee, and the ways to their tools."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ledger.models import LogEntry
from payments.models import Payment
from policy.models import Agent
from services.models import Service
from tests.clients.mcp.talking import Connection, mcp_process, over_http, over_stdio
from tests.support.factories import make_agent, make_api_key
from tests.support.localnets import EVM
from tests.support.servers import Servers

SCOPES = ["payments", "budgets", "logs"]


@dataclass
class Cast:
    """An agent, a payee that it may pay, and a key that is bound to it."""

    agent: Agent
    service: Service
    key: str
    url: str

    @classmethod
    def make(cls, url: str, **agent: Any) -> "Cast":
        made = make_agent(**agent)
        return cls(made, EVM.make_service(), make_api_key(agent=made, scopes=SCOPES), url)

    @property
    def stdio(self) -> Connection:
        return over_stdio(self.url, self.key)

    def http(self, mcp: str, mode: str = "auto") -> Connection:
        return over_http(mcp, self.key, mode)

    def payments(self) -> list[str]:
        """Name the agent's payments, newest first."""
        return list(Payment.objects.filter(agent=self.agent).order_by("-id").values_list("id", flat=True))

    def count_entries(self) -> int:
        return LogEntry.objects.filter(agent=self.agent).count()


@pytest.fixture
def cast(committed: None, servers: Servers) -> Cast:
    return Cast.make(servers.urls[0])


@pytest.fixture(scope="session")
def mcp_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mcp") / "log"


@pytest.fixture(scope="session")
def mcp(servers: Servers, mcp_log: Path) -> Iterator[str]:
    """The process `mcp` in front of the second of the tests' web servers."""
    with mcp_process(servers.urls[1], mcp_log) as address:
        yield address

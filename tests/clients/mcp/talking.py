"""Speak to the server of MCP as a model's program does: with the package's own client, over stdio or HTTP."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import requests
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from foundation.environment.procfile import ROOT, commands_of
from tests.support.ports import free_ports

_START_S = 60
# Nothing of the tests' own environment: no secret of the installation is needed here.
_BARE = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "clients/python"), "PYTHONWARNINGS": "error"}


@dataclass(frozen=True, slots=True)
class Said:
    """What a tool answered."""

    content: dict[str, Any]
    is_error: bool
    text: str

    @property
    def status(self) -> str:
        return str(self.content["status"])

    @property
    def payment_id(self) -> str:
        return str(self.content["payment"]["id"])


class Model:
    """A model's end of a connection: it calls tools, and remembers all that it was ever told."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.heard: list[Said] = []

    async def call(self, tool: str, **arguments: Any) -> Said:
        result = await self._client.call_tool(tool, arguments)
        (content,) = result.content
        assert content.type == "text"
        said = Said(dict(result.structured_content or {}), result.is_error, content.text)
        self.heard.append(said)
        return said

    async def pay(self, service: str, amount: str = "1.00", reason: str = "A forecast", **more: Any) -> Said:
        return await self.call("request_payment", service=service, amount=amount, reason=reason, **more)


Story = Callable[[Model], Awaitable[Any]]
Connection = Callable[[], Any]


def tell(connection: Connection, story: Story) -> Any:
    """Let a model act over a connection of its own; returns what its story returns."""
    return tell_at_once([connection], lambda models: story(models[0]))


def tell_at_once(connections: Sequence[Connection], story: Callable[[list[Model]], Awaitable[Any]]) -> Any:
    """Let models act together, each over a connection of its own."""

    async def play() -> Any:
        async with AsyncExitStack() as open_ones:
            return await story([Model(await open_ones.enter_async_context(one())) for one in connections])

    return asyncio.run(play())


def stdio_environment(url: str, key: str) -> dict[str, str]:
    return {**_BARE, "ALLOWANCE_URL": url, "ALLOWANCE_API_KEY": key}


def over_stdio(url: str, key: str, errors: Path | None = None) -> Connection:
    """Start a server of one agent as its client would; what it says besides goes into `errors`."""

    @asynccontextmanager
    async def connect() -> AsyncIterator[Client]:
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "allowance_mcp"], env=stdio_environment(url, key), cwd=ROOT
        )
        with (errors or Path(os.devnull)).open("a") as file:
            async with Client(stdio_client(command, errlog=file), read_timeout_seconds=90) as client:
                yield client

    return connect


def over_http(url: str, key: str, mode: str = "auto") -> Connection:
    """Ask a server that serves many."""

    @asynccontextmanager
    async def connect() -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=90, trust_env=False) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
        ):
            yield client

    return connect


@contextmanager
def mcp_process(url: str, log: Path, **variables: str) -> Iterator[str]:
    """Run the process `mcp` as the Procfile has it, with no secret in its environment; gives its address."""
    (port,) = free_ports(1)
    ((*command,),) = commands_of("mcp", PORT=str(port), MCP_CONCURRENCY="1")
    environment = {"PATH": os.environ["PATH"], "ALLOWANCE_URL": url, **variables}
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, *command, "--host", "127.0.0.1"], env=environment, cwd=ROOT, stdout=file, stderr=file
        )
        address = f"http://127.0.0.1:{port}"
        try:
            _wait_until_it_answers(address, process)
            yield address
        finally:
            process.terminate()
            status = process.wait(timeout=60)
    assert status == 0, log.read_text()


def _wait_until_it_answers(address: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            if requests.get(f"{address}/healthz", timeout=2).ok:
                return
        except requests.RequestException:
            assert process.poll() is None, "mcp has ended."
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)

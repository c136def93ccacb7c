"""Installations for tests, stopped whatever happens."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from workshop.localnet.jsonrpc.server import Server
from workshop.tests.localnet.chain import Chain
from workshop.tests.localnet.installation import Installation
from workshop.tests.localnet.solana_chain import SolanaChain


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Callable[..., Installation]]:
    """Return a function that makes an installation; `name` is its folder below the test's."""
    made: list[Installation] = []

    def make(name: str = "data", **options: Any) -> Installation:
        made.append(Installation(tmp_path / name, **options))
        return made[-1]

    yield make
    for installation in made:
        installation.stop()


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Chain]:
    """Return a new chain in this process."""
    made = Chain(tmp_path)
    yield made
    made.database.close()


@pytest.fixture
def solana(tmp_path: Path) -> Iterator[SolanaChain]:
    """Return a new Solana chain in this process."""
    made = SolanaChain(tmp_path)
    yield made
    made.database.close()


@pytest.fixture
def solana_url(solana: SolanaChain) -> Iterator[str]:
    """Return where the Solana chain of this process answers over HTTP."""
    server = Server(solana.protocol, 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()

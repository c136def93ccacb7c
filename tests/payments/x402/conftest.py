"""The stage of the tests of x402."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connections

from payments.models import Payment
from policy.models import Agent
from services.models import Service
from services.served_chains import served_chains
from tests.benchmarks.facilitator import packages
from tests.chains.adapter.anvil_node import FOLDER, running_anvil
from tests.payments.x402.stage import ANVIL, NETWORK, X402Deployment, serve
from tests.support.api import Api
from tests.support.factories import make_agent, make_api_key, make_service, new_address, new_name
from tests.support.javascript import install_or_skip
from workshop.localnet.folder import ROOT

Demand = Callable[..., Any]


@pytest.fixture(scope="session")
def x402() -> None:
    """Have x402's packages; skip the tests where pip cannot install them, but not in CI."""
    try:
        packages.install()
    except packages.PackagesUnavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def deployment(x402: None) -> Iterator[X402Deployment]:
    """The escrow and its token, on a node that runs until the tests end."""
    install_or_skip(FOLDER)
    with running_anvil(ANVIL) as url:
        yield X402Deployment(url)


@pytest.fixture(scope="session")
def compiled_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client for TypeScript as it is committed, beside what it needs."""
    client = ROOT / "clients/typescript"
    folder = tmp_path_factory.mktemp("client") / client.name
    shutil.copytree(client, folder, ignore=shutil.ignore_patterns("node_modules"))
    (folder / "node_modules").symlink_to(install_or_skip(client) / "node_modules")
    return folder / "dist/index.js"


@pytest.fixture
def chain(db: None, deployment: X402Deployment, settings: Any) -> Iterator[X402Deployment]:
    """The chain, served and observed by this installation."""
    serve(deployment, settings)
    served_chains()[NETWORK] = deployment.chain
    deployment.look()
    yield deployment
    del served_chains()[NETWORK]


@pytest.fixture
def agent(chain: X402Deployment) -> Agent:
    return make_agent(balance="1000", max_per_payment="10", daily_limit="50")


@pytest.fixture
def payee(chain: X402Deployment) -> Service:
    return make_service(recipient=f"{NETWORK}:{new_address()}")


@pytest.fixture
def demand(api: Api, chain: X402Deployment, agent: Agent, payee: Service) -> Demand:
    """Return a function that asks for what a 402 demands."""

    def ask(requirements: dict[str, Any], key: str | None = None, **changes: Any) -> Any:
        chain.look()
        body = {"agentId": agent.id, "service": payee.id, "paymentRequirements": requirements, "reason": "A report"}
        return api.post("/v1/payments/x402", body | changes, idempotency_key=key or new_name("key"))

    return ask


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called
        pass


@pytest.fixture
def api_url(chain: X402Deployment) -> Iterator[str]:
    """The API over HTTP, one request after the other, on this test's connection to the database and its chain."""
    ours = connections["default"]
    ours.inc_thread_sharing()
    # As Django's own client for tests does: it would end the transaction of the test.
    for signal_ in (request_started, request_finished):
        signal_.disconnect(close_old_connections)
    with make_server("127.0.0.1", 0, WSGIHandler(), handler_class=_Quiet) as server:

        def serve() -> None:
            connections["default"] = ours
            server.serve_forever(poll_interval=0.05)

        thread = Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
    for signal_ in (request_started, request_finished):
        signal_.connect(close_old_connections)
    ours.dec_thread_sharing()


@pytest.fixture
def key(agent: Agent) -> str:
    return make_api_key(agent=agent)


def payment_of(answer: Any) -> Payment:
    """Read the payment of an answer anew."""
    return Payment.objects.get(pk=answer.json()["id"])

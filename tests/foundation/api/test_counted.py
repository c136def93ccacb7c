"""What processes count: each thing once, under labels that nobody from outside chooses."""

import asyncio
import logging
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis

from allowance.front.measuring import OTHER, measured, route_of, template_of
from allowance.front.serving import Front
from allowance.urls import urlpatterns
from chains.port import ChainUnavailable
from chains.rpc.nodes import Nodes
from foundation.environment.process_types import ProcessType
from foundation.heartbeats import AWAY_AFTER_S, key_of
from foundation.kernel import counters
from foundation.kernel.counting import SUM
from foundation.reporting import Reporter, read_counted
from operators.metrics.exposition import read_metrics
from services.models import Outcome
from tests.services.webhooks.told import REFUSED, SECOND, Payee
from tests.support.counted import counted, forget_counts
from tests.support.heartbeats import NAME, hearts_that_beat, make_heartbeat
from tests.support.reconciliations import EscrowScene


@pytest.fixture(autouse=True)
def _nothing_counted() -> Iterator[None]:
    forget_counts()
    yield
    forget_counts()


@pytest.fixture
def redis() -> Iterator[Redis]:
    with Redis.from_url(django_settings.REDIS_URL) as client:
        client.delete("allowance:counted")
        yield client
        client.delete("allowance:counted")


def test_decisions_are_counted_by_their_result_and_rule_and_batches_by_their_size(api, payment):
    api.pay(payment, "one")
    api.pay(payment, "one")  # a replay is no decision
    api.pay({**payment, "amount": "100000"})
    api.pay({**payment, "agentId": "nobody"})  # nothing is logged

    assert counted(counters.DECISIONS) == {
        ("approved", "under_max_payment"): 1,
        ("blocked", "balance_covers_payment"): 1,
    }
    assert counted(counters.BATCH_PAYMENTS) == {("1.0",): 2, (SUM,): 2}
    waited = counted(counters.DECISION_SECONDS)
    assert sum(count for bound, count in waited.items() if bound != (SUM,)) == 4
    assert counted(counters.SETTLEMENT_CHANGES) == {("evm-localnet", "signed"): 1}


def test_a_payment_is_counted_in_each_state_and_with_the_time_it_took(db, django_capture_on_commit_callbacks):
    scene = EscrowScene()
    chain = scene.chain.name

    with django_capture_on_commit_callbacks(execute=True):
        scene.settle()

    came = counted(counters.SETTLEMENT_CHANGES)
    assert came[chain, "broadcast"] == came[chain, "final"] == 1
    assert counted(counters.PAYMENTS_ENDED) == {(chain, "settled"): 1}
    assert [of[1] for of, took in counted(counters.SETTLEMENT_SECONDS).items() if of[0] != SUM] == [chain]


def test_nothing_is_counted_of_what_was_not_committed(db, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=False):
        EscrowScene().settle()

    assert counted(counters.PAYMENTS_ENDED) == {}


def test_attempts_of_webhooks_are_counted_by_their_outcome(db):
    payee = Payee()
    payee.hear()
    payee.attempt(payee.at, **REFUSED)
    payee.hear()
    payee.attempt(payee.at + SECOND)

    assert counted(counters.WEBHOOK_ATTEMPTS) == {(Outcome.STATUS,): 1, (Outcome.DELIVERED,): 1}
    assert counted(counters.WEBHOOK_DELIVERY_SECONDS)[SUM,] == 1


def test_requests_to_nodes_are_counted_by_host_and_by_nothing_else_of_their_address():
    nodes = Nodes(["http://user:secret@127.0.0.1:1/v2/key?token=key"])

    with pytest.raises(ChainUnavailable):
        nodes.ask([("eth_chainId",)])

    for counter in (counters.RPC_REQUESTS, counters.RPC_FAILURES):
        assert counted(counter) == {("127.0.0.1",): 1}


@pytest.mark.parametrize("method", ["GET", "BREW"])
def test_a_request_is_counted_when_its_answer_begins(method):
    async def answer() -> None:
        async def send(_: Any) -> None:
            return

        timed = measured({"REQUEST_METHOD": method, "PATH_INFO": "/v1/payments/pay_1"}, send)
        await timed({"type": "http.response.start", "status": 404})
        await timed({"type": "http.response.body"})

    asyncio.run(answer())

    name = "other" if method == "BREW" else method
    assert counted(counters.HTTP_REQUESTS) == {(name, "/v1/payments/{id}", "404"): 1}
    assert len(counted(counters.HTTP_REQUEST_SECONDS)) == 2  # its bucket, and the sum


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/v1/payments/request/", "/v1/payments/request"),
        ("/v1/payments/a/b", "other"),
        ("/v1/payments/a b\n", "/v1/payments/{id}"),
        ("/v1/services/a/", "/v1/services/{id}"),
        ("/v1/services/\xc3\xa0", "/v1/services/{id}"),  # as WSGI has UTF-8
        ("/v1/services/%FF", "/v1/services/{id}"),
        ("/v1/docs/errors/rate_limited", "/v1/docs/{page}"),
        ("/v1/clients/a.whl", "/v1/clients/{file}"),
        ("/v1/nothing", "other"),
        ("/healthz/", "/healthz"),
        ("/v1/agents/a/b/budget/", "/v1/agents/{id}/budget"),
        ("/console/policy/agent/a/change/", "/console"),
        ("/console", "/console"),
        ("/consoles", "other"),
        ("/static/x.css", "/static"),
        ("/", "other"),
        ("", "other"),
        ("/.env", "other"),
    ],
)
def test_an_address_is_told_by_its_template(path, route):
    assert route_of(path) == route


def test_every_address_of_the_api_has_a_route_of_its_own(document):
    routes = [route_of(path.replace("{id}", "x")) for path in document["paths"]]

    assert routes == list(document["paths"])


# What dashboards and alerts may name: docs/operate/monitoring.md.
ROUTES = {
    "/v1/payments/request", "/v1/payments/evaluate", "/v1/payments/x402", "/v1/payments", "/v1/payments/{id}",
    "/v1/payments/{id}/proof", "/v1/agents/{id}/budget", "/v1/services", "/v1/services/{id}", "/v1/logs",
    "/v1/logs/{id}", "/v1/me", "/v1/openapi.json", "/v1/docs", "/v1/docs/{page}", "/v1/clients/{file}", "/llms.txt",
    "/.well-known/allowance-keys.json", "/healthz", "/readyz", "/metrics",
}  # fmt: skip
PATTERNS = [str(one.pattern) for one in urlpatterns if not str(one.pattern).lstrip("^").startswith("console")]


def test_the_routes_keep_their_names():
    assert {template_of(pattern) for pattern in PATTERNS} == ROUTES


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_route_of_the_urlconf_has_a_label_of_its_own(pattern):
    name = template_of(pattern)
    path = re.sub(r"\{\w+\}", "x", name)

    assert route_of(path) == route_of(f"{path}/") == name != OTHER


def test_an_answer_that_django_never_made_has_the_route_of_its_path():
    async def ask() -> list[int]:
        statuses = []

        async def send(message: Any) -> None:
            statuses.append(message.get("status"))

        long = {"scheme": "http", "http_version": "1.1", "method": "POST", "raw_path": b"/v1/payments/request",
                "query_string": b"x" * 40_000, "headers": [], "server": ("h", 1), "client": ("h", 1)}  # fmt: skip
        front = Front(refuse_to_serve, refuse_to_serve, refuse_to_serve)
        front._is_limited = True
        await front(long, refuse_to_serve, send)
        return statuses

    assert asyncio.run(ask())[0] == 431
    assert counted(counters.HTTP_REQUESTS) == {("POST", "/v1/payments/request", "431"): 1}


def refuse_to_serve(*_: Any) -> Any:
    raise AssertionError


def test_what_several_processes_count_is_added_up(redis):
    for name in ("a-host:1", "a-host:2"):
        counters.RPC_REQUESTS.add("rpc.example")
        counters.DECISION_SECONDS.observe(0.3)
        Reporter(name).report()

    assert read_counted() == {
        "rpc_requests": {("rpc.example",): 2},
        "decision_seconds": {("0.5",): 2, (SUM,): pytest.approx(0.6)},
    }


def test_nothing_is_lost_while_redis_is_away(redis, settings, caplog):
    counters.RPC_REQUESTS.add("rpc.example")
    reachable, settings.REDIS_URL = settings.REDIS_URL, "redis://127.0.0.1:1"
    with caplog.at_level(logging.WARNING):
        Reporter("a-host:1").report()
    assert len(caplog.records) == 1

    settings.REDIS_URL = reachable
    counters.RPC_REQUESTS.add("rpc.example")
    Reporter("a-host:1").report()

    assert read_counted() == {"rpc_requests": {("rpc.example",): 2}}


def test_what_cannot_be_added_does_not_have_the_rest_added_again(redis):
    counters.RPC_REQUESTS.add("rpc.example")
    redis.hset("allowance:counted", '["rpc_failures", "rpc.example"]', "many")
    counters.RPC_FAILURES.add("rpc.example")
    reporter = Reporter("a-host:1")
    for _ in range(3):
        reporter.report()
    redis.hdel("allowance:counted", '["rpc_failures", "rpc.example"]')
    reporter.report()

    assert read_counted() == {"rpc_requests": {("rpc.example",): 1}, "rpc_failures": {("rpc.example",): 1}}


def test_nothing_that_somebody_writes_to_redis_breaks_the_probes(db, anonymous, redis):
    with hearts_that_beat() as client:
        for key in (b"allowance:heartbeat:", b"allowance:heartbeat:mole:x:1", b"allowance:heartbeat:web:\xff"):
            client.set(key, b"\xff", ex=60)
        client.rpush("allowance:heartbeat:worker:list:1", "x")
        for field in (
            "", "5", "[]", "[" * 5000, '["rpc_requests", 5]', '["rpc_requests"]', '["rpc_requests", "a", "b"]',
            '["rpc_requests", "\\ud800"]', '[["rpc_requests"], "a"]', '["unheard_of", "a"]', b"\xff",
        ):  # fmt: skip
            redis.hset("allowance:counted", field, 1)
        redis.hset("allowance:counted", '["rpc_requests", "a.example"]', "many")

        assert b"allowance_processes" in read_metrics()
        assert anonymous.get("/readyz").json()["checks"]["worker"] == "ok"
        client.delete("allowance:heartbeat:worker:list:1", b"allowance:heartbeat:web:\xff")

    assert read_counted() == {}


def test_what_only_redis_knows_is_unknown_while_it_is_away_and_no_total_falls_to_nothing(db, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1"

    found = {
        (sample.name.removeprefix("allowance_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(read_metrics().decode())
        for sample in family.samples
    }

    assert found["part_ready", "broker"] == 0
    assert found["part_ready", "database"] == 1
    for name in ("processes", "heartbeat_age_seconds", "part_ready"):
        assert math.isnan(found[name, "worker"])
    assert math.isnan(found["queue_tasks", "celery"])
    assert ("decisions_total", "approved", "under_max_payment") not in found


def test_processes_are_counted_while_their_hearts_beat(db):
    with hearts_that_beat() as redis:
        make_heartbeat(redis, ProcessType.WORKER, name="b-host:2")
        make_heartbeat(redis, ProcessType.WORKER, name="c-host:3", age_s=AWAY_AFTER_S + 1)
        redis.delete(key_of(ProcessType.BEAT, NAME))

        found = {
            (sample.name, sample.labels["process"]): sample.value
            for family in text_string_to_metric_families(read_metrics().decode())
            for sample in family.samples
            if "process" in sample.labels
        }

    assert found["allowance_processes", "worker"] == 2
    assert found["allowance_processes", "webhooks"] == 1
    assert found["allowance_processes", "beat"] == 0
    assert found["allowance_heartbeat_age_seconds", "beat"] == math.inf
    assert found["allowance_heartbeat_age_seconds", "worker"] < AWAY_AFTER_S

"""Real processes with known secrets, a short and unlucky story, and then a search of everything that can be seen."""

import json
import os
import re
import secrets
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import requests
from celery import Celery
from django.test import RequestFactory
from django.views.debug import ExceptionReporter

from tests.attacks.known_secrets import World
from tests.attacks.programs import PREPARE, SHOW
from tests.attacks.search import Remains, spellings
from tests.services.webhooks.behaviours import answers
from tests.services.webhooks.receivers import Receiver

pytestmark = pytest.mark.long(45)

# What a payment that is settled, and whose payee does not take events, tells of itself.
SPANS = {"payment request", "lock and read", "judge and sign", "record and commit", "webhook attempt"}
# A worker that is slow sees only the last of them.
_ON_CHAIN = ["broadcast", "inclusion", "finality"]
TRACEPARENT = f"00-{'ab' * 16}-{'cd' * 8}-01"
PASSWORD = "a password of the staff"
# It is put into every kind of place on purpose: a search that does not find it would find nothing.
PLANTED = f"planted{secrets.token_hex(16)}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Everything has happened, and is gathered."""
    made = World(tmp_path_factory.mktemp("secrets"))
    try:
        made.start_servers()
        made.run("manage.py", "migrate", "--verbosity", "0")
        with made.collector, Receiver(answers(500)) as receiver:
            made.start_processes()
            _tell(made, receiver)
        made.collect()
        yield made
    finally:
        made.stop()


def _tell(world: World, receiver: Receiver) -> None:
    prepared = world.run("manage.py", "shell", "--command", PREPARE.format(password=PASSWORD, url=receiver.url()))
    agent, service, key = json.loads(prepared.splitlines()[-1])
    for web in ("web", "debug"):
        world.wait_until_ready(web)
    _pay(world, agent, service, key)
    _ask_for_nonsense(world, key)
    session = _log_in(world)
    for event in receiver.wait_for(1):
        world.seen.add("webhook", event.line, repr(event))
    _look_at_the_console(world, session)
    _run_commands(world)
    _break_the_database(world, session, key)
    _break_a_task(world)
    names = SPANS | {"final"}
    spans = world.collector.spans
    world.wait_for(
        lambda: {span.attributes.get("allowance.state", span.name) for span in spans} >= names, "the payment's spans"
    )


def _pay(world: World, agent: str, service: str, key: str) -> None:
    body = {"agentId": agent, "service": service, "amount": "1.00", "asset": "USDC", "reason": PLANTED}
    headers = {"Authorization": f"Bearer {key}", "X-Request-Id": PLANTED, "traceparent": TRACEPARENT}
    for number, amount in enumerate(("1.00", "99.00")):
        named = headers | {"Idempotency-Key": f"order-{number}"}
        world.ask("web", "POST", "/v1/payments/request", json=body | {"amount": amount}, headers=named)
    payments = "SELECT id, status FROM payments_payment"
    world.wait_for(lambda: [row for row in world.execute(payments) if row[1] == "settled"], "a payment is settled")
    ((payment, _),) = world.execute(payments)
    for path in (f"/v1/payments/{payment}", "/v1/logs", f"/v1/agents/{agent}/budget", "/v1/openapi.json"):
        assert world.ask("web", "GET", path, headers=headers).ok, path


def _ask_for_nonsense(world: World, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    for web in ("web", "debug"):
        world.ask(web, "GET", "/.well-known/allowance-keys.json")
        world.ask(web, "GET", "/v1/logs")
        world.ask(web, "GET", "/v1/logs", headers={"Authorization": "Bearer wrong"})
        world.ask(web, "GET", "/v1/logs?cursor=wrong", headers=headers)
        world.ask(web, "POST", "/v1/payments/request", data=b'{"a": \xff', headers=headers)
        world.ask(web, "GET", "/metrics")
        world.ask(web, "GET", "/metrics", headers={"Authorization": f"Bearer {world.texts['METRICS_TOKEN']}"})
        world.ask(web, "GET", "/console/?a=%00")
        world.ask(web, "GET", "/nowhere")
        world.ask(web, "GET", "/healthz", headers={"Host": "elsewhere.example"})
        world.ask(web, "POST", "/console/login/", data={"username": "admin", "password": "wrong"})


def _log_in(world: World) -> requests.Session:
    session = requests.Session()
    page = world.ask("debug", "GET", "/console/login/", session)
    (token,) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
    form = {"username": "admin", "password": PASSWORD, "csrfmiddlewaretoken": token, "next": "/console/"}
    assert world.ask("debug", "POST", "/console/login/", session, data=form).is_redirect
    return session


def _look_at_the_console(world: World, session: requests.Session) -> None:
    """Follow the links of the console, each page once and of each list the first row."""
    waiting, known = ["/console/"], set()
    while waiting:
        page = waiting.pop()
        shape = re.sub(r"/[^/]*[0-9:][^/]*/", "/*/", page)
        if shape in known:
            continue
        known.add(shape)
        answer = world.ask("debug", "GET", page, session)
        waiting += [link for link in re.findall(r'href="(/console/[^"?#]*)"', answer.text) if "logout" not in link]
    assert len(known) > 20


def _run_commands(world: World) -> None:
    password = world.texts["database password"]
    away = {"DATABASE_URL": f"postgres://user:{password}@127.0.0.1:1/x", "LOG_LEVEL": "DEBUG"}
    no_url = {"DATABASE_URL": f"postgres://user:{password}/@127.0.0.1/x"}
    broken = {name: key.hex()[:-1] for name, key in world.keys.items()}
    outputs = world.run_all(
        [
            (("manage.py", "shell", "--command", SHOW), {}),
            (("manage.py", "verify_log", "--traceback"), away),
            (("manage.py", "chains"), no_url),
            (("manage.py", "check", "--deploy"), broken),
            (("manage.py", "rotate_keys", "evm-localnet", "--no-wait", "--traceback"), {}),
            (("manage.py", "deploy_escrow", "evm-localnet", "--owner", "0x0", "--traceback"), {}),
            (("manage.py", "relayers"), {"REDIS_URL": "redis://:" + world.texts["node key"] + "@127.0.0.1:1/0"}),
            (("-m", "celery", "--app", "allowance", "inspect", "conf", "--timeout", "5"), {}),
            (("-m", "celery", "--app", "allowance", "report"), {}),
            (
                ("manage.py", "doctor"),
                {"EMBEDDED": "false", "DEBUG": "", "WEBHOOKS_ALLOW_PRIVATE": "", "EMBEDDED_DIR": ""},
            ),
            (("manage.py", "doctor"), away | broken),
            (("manage.py", PLANTED), {}),
        ]
    )
    shown, failed, refused = outputs[0], outputs[1], outputs[3]
    # What is searched is there: settings by name, variables of frames, tracebacks, what was wrong.
    assert shown.count("shown:") == 8, shown
    assert "RELAYER_SEED" in shown
    assert "key_from_seed" in shown
    assert "The database of DATABASE_URL cannot be used" in failed
    assert "RELAYER_SEED is not a key of 64 bytes in hex." in refused
    for examined in outputs[-3:-1]:
        assert '"findings": [' in examined.splitlines()[-2], examined


def _break_the_database(world: World, session: requests.Session, key: str) -> None:
    """Take a table away, so that everything that needs it ends in a traceback, and put it back."""
    headers = {"Authorization": f"Bearer {key}"}
    world.execute("ALTER TABLE policy_agent RENAME TO gone")
    try:
        for web in ("web", "debug"):
            assert world.ask(web, "GET", f"/v1/agents/{PLANTED}/budget", headers=headers).status_code == 500
        page = world.ask("debug", "GET", f"/console/policy/agent/?q={PLANTED}", session)
    finally:
        world.execute("ALTER TABLE gone RENAME TO policy_agent")
    # It is the page that shows everything.
    assert page.status_code == 500
    assert "Traceback" in page.text
    assert "RELAYER_SEED" in page.text
    world.redis.set("planted", PLANTED)


def _break_a_task(world: World) -> None:
    """Send a task that ends in a traceback."""
    with Celery(broker=world.environment["REDIS_URL"], set_as_current=False) as app:
        app.send_task("payments.tasks.reconcile_chain", (PLANTED,), queue="celery")
    world.wait_for(lambda: _reports(world, "worker", "ValueError"), "the worker reports an error")


def _reports(world: World, process: str, error: str) -> list[dict[str, Any]]:
    """List what was reported of one kind; a task that ran while the table was away has reported another one."""
    told = [event for event in world.collector.events if event["tags"]["process"] == process]
    return [event for event in told if event["exception"]["values"][-1]["type"] == error]


def test_no_secret_is_in_a_log_an_answer_a_page_a_row_redis_or_a_traceback(world):
    found = [f"{name}: {place}" for name, secret in world.known.items() for place in {*world.seen.find(secret)}]
    assert "\n".join(sorted(found)) == ""


def test_an_error_page_of_djangos_own_server_shows_no_secret_of_its_environment():
    request = RequestFactory().get("/console/")
    request.META.update(os.environ)
    page = ExceptionReporter(request, RuntimeError, RuntimeError("broken"), None).get_traceback_html()
    assert "CHAIN_EVM_LOCALNET_RPC_URLS" in page
    for name in ("RELAYER_SEED", "POLICY_SIGNER_ED25519_KEY", "WEBHOOK_SECRETS_KEY", "REDIS_URL", "SECRET_KEY"):
        assert name in page
        assert os.environ[name] not in page


def test_the_search_finds_what_was_put_into_each_kind_of_place_on_purpose(world):
    places = {(kind, spelling) for kind, _, spelling in world.seen.find(PLANTED.encode())}
    assert (
        {kind for kind, _ in places}
        == world.seen.kinds()
        == {"answer", "command", "log", "page", "redis", "report", "row", "span", "webhook"}
    )


@pytest.mark.parametrize("write", spellings(b"").keys())
def test_a_secret_is_found_however_it_is_written(write):
    secret = secrets.token_bytes(32)
    remains = Remains()
    remains.add("log", "a log", b"before " + spellings(secret)[write].upper() + b" after")
    remains.add("page", "a page", b"before " + spellings(secret)[write] + b" after")
    assert write in {spelling for kind, _, spelling in remains.find(secret) if kind == "page"}
    assert [*remains.find(secrets.token_bytes(32))] == []


def test_every_line_of_every_process_is_one_json_object_that_says_who_wrote_it(world):
    for name in ("web", "worker", "webhooks", "beat"):
        lines = [json.loads(line) for line in world.log_of(name).splitlines()]
        assert {line["process"] for line in lines} <= {name}
        assert all({"time", "level", "logger", "message", "pid", "version"} <= line.keys() for line in lines)
    failed = [line for line in map(json.loads, world.log_of("worker").splitlines()) if "exception" in line]
    # A task of beat's may have met the table that was away, too.
    assert any("ValueError: This chain is not served." in line["exception"] for line in failed)


def test_each_request_has_a_line_with_its_ids_and_without_its_query_and_its_key(world):
    lines = [json.loads(line) for line in world.log_of("web").splitlines()]
    told = [line for line in lines if line["logger"] == "allowance.requests"]
    (paid,) = [line for line in told if (line.get("requestId"), line["status"]) == (PLANTED, 201)]
    ((payment, agent),) = world.execute("SELECT id, agent_id FROM payments_payment")
    assert (paid["method"], paid["path"], paid["client"]) == ("POST", "/v1/payments/request", "127.0.0.1")
    assert (paid["paymentId"], paid["agentId"]) == (payment, agent)
    assert paid["keyId"]
    assert paid["bytes"] > 0
    assert {line["path"] for line in told if line["status"] < 400} & {"/healthz", "/readyz", "/metrics"} == set()
    assert not [line for line in told if "?" in line["path"]]
    assert [line["status"] for line in told if line["path"] == "/nowhere"] == [404]


def test_a_payment_is_followed_by_its_id_through_the_lines_of_all_processes(world):
    ((payment, tx),) = world.execute(
        "SELECT s.payment_id, s.tx FROM payments_settlement s JOIN payments_payment p ON p.id = s.payment_id"
    )
    found = {
        name: [line for line in map(json.loads, world.log_of(name).splitlines()) if line.get("paymentId") == payment]
        for name in ("web", "worker", "webhooks")
    }

    assert [line["requestId"] for line in found["web"] if line["status"] == 201] == [PLANTED]
    steps = [line for line in found["worker"] if line["level"] == "INFO"]
    assert [line["state"] for line in steps][-2:] == ["final", "settled"]
    assert {line["tx"] for line in steps} == {tx}
    assert {line["chain"] for line in steps} == {"eip155:31337"}
    told = [line for line in found["webhooks"] if "attempt" in line]
    assert {(line["state"], line["attempt"], line["outcome"], line["status"]) for line in told} >= {
        ("approved", 1, "status", 500)
    }
    assert all(line["eventId"].startswith("evt_") and line["service"] and line["agentId"] for line in told)
    assert not any('"1.00"' in json.dumps(line) or PLANTED in json.dumps(line) for line in steps + told)


def test_an_error_is_reported_with_its_stack_from_whichever_process_it_ends(world):
    assert _reports(world, "web", "ProgrammingError")
    (failed,) = _reports(world, "worker", "ValueError")
    (error,) = failed["exception"]["values"]
    frames = error["stacktrace"]["frames"]
    assert any(frame["function"] == "_run_step" for frame in frames)
    assert not any("vars" in frame for frame in frames)
    assert {name for event in world.collector.events for name in event.get("request", {})} <= {"method", "url"}


def test_a_payment_is_one_trace_from_its_request_to_its_settlement_and_its_webhooks(world):
    ((payment, agent),) = world.execute("SELECT id, agent_id FROM payments_payment")
    spans = [span for span in world.collector.spans if span.attributes["allowance.payment_id"] == payment]
    (first,) = [span for span in spans if not span.parent_id]
    assert (first.name, first.process) == ("payment request", "allowance-web")
    assert first.attributes["allowance.agent_id"] == agent
    assert first.links == [(bytes.fromhex("ab" * 16), bytes.fromhex("cd" * 8))]
    assert {span.trace_id for span in spans} == {first.trace_id} != {first.links[0][0]}
    assert {span.parent_id for span in spans} == {b"", first.span_id}
    on_chain = sorted((span for span in spans if span.name in _ON_CHAIN), key=lambda span: span.began)
    assert {span.name for span in spans} == SPANS | {span.name for span in on_chain}
    assert all(one.ended == other.began for one, other in pairwise(on_chain))
    assert on_chain[-1].attributes["allowance.state"] == "final"
    assert {span.process for span in spans} == {"allowance-web", "allowance-worker", "allowance-webhooks"}
    assert all(span.began <= span.ended for span in spans)
    sent_keys = {headers.get("x-trace-key") for headers in world.collector.headers}
    assert world.texts["trace key"] in sent_keys

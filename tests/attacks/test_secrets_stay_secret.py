"""Real processes with known secrets, a short and unlucky story, and then a search of everything that can be seen."""

import json
import os
import re
import secrets
from collections.abc import Iterator

import pytest
import requests
from django.test import RequestFactory
from django.views.debug import ExceptionReporter

from tests.attacks.known_secrets import World
from tests.attacks.search import Remains, spellings
from tests.services.webhooks.behaviours import answers
from tests.services.webhooks.receivers import Receiver

pytestmark = pytest.mark.long(45)

PASSWORD = "a password of the staff"
# It is put into every kind of place on purpose: a search that does not find it would find nothing.
PLANTED = f"planted{secrets.token_hex(16)}"
_PREPARE = """
from django.contrib.auth import get_user_model
from policy.operations import switch_signer
from tests.support.factories import make_agent, make_api_key, make_service
switch_signer(is_signing=True, by="test")
get_user_model().objects.create_superuser("admin", "", {password!r})
service = make_service(webhook_url={url!r})
import json
print(json.dumps([make_agent().pk, service.pk, make_api_key()]))
"""
# What a developer, or a tool that reports errors, prints: all settings, and every variable of every frame.
_SHOW = """
import traceback
from contextlib import suppress
from django.conf import settings
from django.db import connection
from allowance.environment.keys import held_key
from chains.evm.derivation import derive_account
from services.served_chains import served_chains
from policy.signer import local_signer
from services.webhooks.signing_secrets import seal
print(vars(settings._wrapped), settings.DATABASES, connection.settings_dict, settings.CHAINS, local_signer().__dict__)
print([vars(adapter) for adapter in served_chains().values()])
def fail(act):
    try:
        act()
    except Exception as error:
        print("shown:", traceback.format_exc())
        for frame, _ in traceback.walk_tb(error.__traceback__):
            for name, value in frame.f_locals.items():
                with suppress(Exception):
                    print(name, "=", repr(value))
fail(lambda: derive_account(held_key("RELAYER_SEED"), "no number"))
fail(lambda: seal("no bytes", "service"))
fail(lambda: local_signer().authorize("no digest"))
fail(lambda: local_signer().cosign(7))
fail(lambda: local_signer().sign_receipt(7))
def use(name):
    secret = held_key(name)
    raise RuntimeError(f"{secret} {secret!r}")
for name in ("RELAYER_SEED", "POLICY_SIGNER_ED25519_KEY", "WEBHOOK_SECRETS_KEY"):
    fail(lambda: use(name))
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Everything has happened, and is gathered."""
    made = World(tmp_path_factory.mktemp("secrets"))
    try:
        made.start_servers()
        made.run("manage.py", "migrate", "--verbosity", "0")
        with Receiver(answers(500)) as receiver:
            made.start_processes()
            _tell(made, receiver)
        made.collect()
        yield made
    finally:
        made.stop()


def _tell(world: World, receiver: Receiver) -> None:
    prepared = world.run("manage.py", "shell", "--command", _PREPARE.format(password=PASSWORD, url=receiver.url()))
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


def _pay(world: World, agent: str, service: str, key: str) -> None:
    body = {"agentId": agent, "service": service, "amount": "1.00", "asset": "USDC", "reason": PLANTED}
    headers = {"Authorization": f"Bearer {key}"}
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
            (("manage.py", "shell", "--command", _SHOW), {}),
            (("manage.py", "verify_log", "--traceback"), away),
            (("manage.py", "chains"), no_url),
            (("manage.py", "check", "--deploy"), broken),
            (("manage.py", "rotate_keys", "evm-localnet", "--no-wait", "--traceback"), {}),
            (("manage.py", "deploy_escrow", "evm-localnet", "--owner", "0x0", "--traceback"), {}),
            (("manage.py", "relayers"), {"REDIS_URL": "redis://:" + world.texts["node key"] + "@127.0.0.1:1/0"}),
            (("-m", "celery", "--app", "allowance", "inspect", "conf", "--timeout", "5"), {}),
            (("-m", "celery", "--app", "allowance", "report"), {}),
            (("manage.py", PLANTED), {}),
        ]
    )
    shown, failed, refused = outputs[0], outputs[1], outputs[3]
    # What is searched is there: settings by name, variables of frames, tracebacks, what was wrong.
    assert shown.count("shown:") == 8, shown
    assert "RELAYER_SEED" in shown
    assert "key_from_seed" in shown
    assert "Traceback" in failed
    assert "RELAYER_SEED is not a key of 64 bytes in hex." in refused


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
        == {"answer", "command", "log", "page", "redis", "row", "webhook"}
    )


@pytest.mark.parametrize("write", spellings(b"").keys())
def test_a_secret_is_found_however_it_is_written(write):
    secret = secrets.token_bytes(32)
    remains = Remains()
    remains.add("log", "a log", b"before " + spellings(secret)[write].upper() + b" after")
    remains.add("page", "a page", b"before " + spellings(secret)[write] + b" after")
    assert write in {spelling for kind, _, spelling in remains.find(secret) if kind == "page"}
    assert [*remains.find(secrets.token_bytes(32))] == []

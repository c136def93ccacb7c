"""`python -m allowance_client listen`."""

import json
import os
import signal
import subprocess
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from standardwebhooks import Webhook

from foundation.kernel.times import utc_now
from policy.signer import receipt_jwk
from services.webhooks.signatures import sign_headers
from services.webhooks.signing_secrets import as_text
from tests.clients.developer import LISTEN, PATIENCE_S, Developer
from tests.support.factories import new_name
from tests.support.ports import free_ports

SECRET, SHOP = b"s" * 32, "shop"


@pytest.fixture
def listen():
    made = []

    def start(*arguments, services=(SHOP,), **variables):
        named = [part for service in services for part in ("--service", service)]
        made.append(Developer(*named, *arguments, **variables))
        made[-1].wait_until_it_listens()
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def key():
    return Ed25519PrivateKey.generate()


@pytest.fixture
def jwks(key):
    return {"keys": [receipt_jwk(key.public_key().public_bytes_raw())]}


@pytest.fixture
def keys(jwks, tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(jwks))
    return str(path)


def make_event(kind="payment.settled", service=SHOP):
    data = {"service": service, "reason": "für ☂", "amount": "1.00"}
    event = {"id": new_name("evt_"), "type": kind, "timestamp": "2026-11-20T17:33:14.396Z", "data": data}
    return event, json.dumps(event, ensure_ascii=False).encode()


def signed(event, body, sign, secret=SECRET):
    return sign_headers(event["id"], body, utc_now(), [secret], sign)


def test_each_webhook_is_one_json_object_on_a_line(listen, key, keys):
    developer = listen("--port", "0", "--secret", as_text(SECRET), "--keys", keys, "--json")
    event, body = make_event()

    for headers, status, told in [
        (signed(event, body, key.sign), 204, {"verified": True, "signatures": ["v1", "v1a"], "again": False}),
        (signed(event, body, key.sign), 204, {"verified": True, "signatures": ["v1", "v1a"], "again": True}),
        (signed(event, body, key.sign, b"x"), 401, {"verified": False, "signatures": [], "again": False}),
    ]:
        answer = developer.post(body, headers)
        line = json.loads(developer.line())
        assert answer.status_code == status
        come = {"id": event["id"], "type": event["type"], "body": event, "headers": headers, "raw": body.decode()}
        assert line == {**come, "reason": line["reason"], **told}
        assert (line["reason"] is None) == told["verified"]

    developer.post(b"nonsense", {})
    line = json.loads(developer.line())
    assert (line["id"], line["type"], line["verified"], line["body"]) == (None, None, False, None)
    assert (line["headers"], line["raw"]) == ({}, "nonsense")


def test_an_event_of_another_service_is_refused_though_the_installation_signed_it(listen, key, keys):
    developer = listen("--port", "0", "--keys", keys, "--json")
    event, body = make_event(service="book-shop")

    answer = developer.post(body, signed(event, body, key.sign))

    told = json.loads(developer.line())
    assert (answer.status_code, answer.text) == (401, "The webhook is for another service.\n")
    assert (told["verified"], told["signatures"], told["reason"]) == (False, [], "The webhook is for another service.")


def test_a_receiver_may_be_told_of_several_services(listen, key, keys):
    developer = listen("--port", "0", "--keys", keys, "--json", services=(SHOP, "book-shop"))

    statuses = []
    for service in (SHOP, "book-shop", "toy-shop"):
        event, body = make_event(service=service)
        statuses.append(developer.post(body, signed(event, body, key.sign)).status_code)

    assert statuses == [204, 204, 401]


def test_of_several_services_a_secret_fits_the_events_of_its_own(listen, key):
    developer = listen("--port", "0", "--json", services=("book-shop", SHOP), WEBHOOK_SECRET=as_text(SECRET))
    event, body = make_event()

    answers = [developer.post(body, signed(event, body, key.sign, secret)) for secret in (SECRET, b"x")]

    assert [answer.status_code for answer in answers] == [204, 401]


def test_what_was_printed_can_be_verified_by_somebody_else(listen, key, keys):
    developer = listen("--port", "0", "--keys", keys, "--json")
    event, body = make_event()

    developer.post(body, signed(event, body, key.sign) | {"Authorization": "Bearer secret-value"})

    line = developer.line()
    told = json.loads(line)
    assert Webhook(SECRET).verify(told["raw"], told["headers"]) == event
    assert "secret-value" not in line


def test_of_what_is_no_webhook_nothing_is_made_up(listen, keys):
    developer = listen("--port", "0", "--keys", keys, "--json")

    with requests.Session() as session:
        session.trust_env = False
        session.get(developer.url, headers={"Webhook-Id": "evt_1"}, timeout=PATIENCE_S)

    told = json.loads(developer.line())
    assert (told["id"], told["headers"], told["raw"]) == ("evt_1", {"webhook-id": "evt_1"}, None)


def test_for_people_the_body_is_indented_and_commands_the_terminal_nothing(listen, key, keys):
    developer = listen("--port", "0", "--keys", keys)
    event, body = make_event("payment.\u001b[31msettled\u009b")

    developer.post(body, signed(event, body, key.sign))
    developer.post(body, signed(event, body, key.sign))

    head, *shown = [developer.line() for _ in range(1 + len(json.dumps(event, indent=2).splitlines()))]
    assert "payment.\ufffd[31msettled\ufffd" in head
    assert event["id"] in head
    assert head.endswith("verified by v1a")
    assert '        "reason": "für ☂",' in shown
    assert developer.line().endswith("verified by v1a (again)")


def test_secrets_may_come_from_the_environment(listen, key, keys):
    other = as_text(b"o" * 32)
    developer = listen("--port", "0", "--keys", keys, "--json", WEBHOOK_SECRET=f"{other} {as_text(SECRET)}")
    event, body = make_event()

    assert developer.post(body, signed(event, body, key.sign)).status_code == 204
    assert json.loads(developer.line())["signatures"] == ["v1", "v1a"]


def test_the_keys_may_come_from_an_address(listen, key, jwks):
    with served(json.dumps(jwks).encode()) as url:
        developer = listen("--port", "0", "--keys", url, "--json")
    event, body = make_event()

    assert developer.post(body, signed(event, body, key.sign)).status_code == 204
    assert developer.post(body, signed(event, body, Ed25519PrivateKey.generate().sign)).status_code == 401


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_with_status_0_when_it_is_told_to(listen, keys, number):
    developer = listen("--port", "0", "--keys", keys)

    assert developer.end(number) == 0
    assert developer.line() == ""
    assert developer.process.stderr.read() == ""


def test_it_listens_on_the_port_that_is_named(listen, keys):
    (port,) = free_ports(1)

    assert listen("--port", str(port), "--keys", keys).url == f"http://127.0.0.1:{port}/"


def test_a_port_that_is_taken_is_named(listen, keys):
    port = listen("--port", "0", "--keys", keys).url.strip("/").rpartition(":")[2]

    status, said = refused("--service", SHOP, "--port", port, "--keys", keys)

    assert (status, said) == (1, f"Cannot listen on port {port} of 127.0.0.1: Address already in use.\n")


@pytest.mark.parametrize("port", ["-1", "65536", "http", "9" * 5000, "8_0", ""])
def test_a_port_that_is_none_is_refused(port, keys):
    status, said = refused("--service", SHOP, f"--port={port}", "--keys", keys)

    assert status == 2
    assert f"--port: invalid value: '{port}' is not a port, 0 to 65535" in said


def test_a_secret_that_is_none_is_refused_without_being_shown(keys):
    status, said = refused("--service", SHOP, "--port", "0", "--secret", "hunter2", "--keys", keys)

    assert status == 2
    assert "whsec_ and base64" in said
    assert "hunter2" not in said


def test_keys_that_cannot_be_read_are_named(tmp_path):
    (port,) = free_ports(1)
    nothing, other = tmp_path / "nothing.json", tmp_path / "other.json"
    other.write_text('{"keys": [{"kty": "EC"}]}')
    for source in (str(nothing), str(other), f"http://127.0.0.1:{port}/keys.json", "http://[/"):
        status, said = refused("--service", SHOP, "--port", "0", "--keys", source)
        assert status == 2
        assert f"{source} cannot be read" in said


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (("--service", SHOP), "give a secret in WEBHOOK_SECRET"),
        (("--keys", "keys.json"), "one of the arguments --service --agent is required"),
    ],
)
def test_what_it_cannot_verify_without_is_asked_for(arguments, missing):
    status, said = refused("--port", "0", *arguments)

    assert status == 2
    assert missing in said


def test_it_ends_when_nobody_reads_what_it_prints_any_more(keys):
    command = [*LISTEN, "--service", SHOP, "--port", "0", "--keys", keys]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        url = process.stdout.readline().strip().removeprefix("listening on ")
        process.stdout.close()
        with requests.Session() as session, suppress(requests.ConnectionError):
            session.trust_env = False
            session.post(url, data=b"nonsense", timeout=PATIENCE_S)
        try:
            assert process.wait(PATIENCE_S) == 128 + signal.SIGPIPE
        finally:
            process.kill()


def refused(*arguments):
    """Run it with what it cannot do; returns its status and what it says of that."""
    done = subprocess.run(
        [*LISTEN, *arguments], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip
    assert done.stdout == ""
    return done.returncode, done.stderr


@contextmanager
def served(content):
    """Serve one document at every address of a server."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/.well-known/allowance-keys.json"
        finally:
            server.shutdown()
            thread.join()

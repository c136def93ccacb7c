"""The developers' receiver: what it takes for genuine, what it answers, what it shows."""

import json
import socket
import threading
from datetime import timedelta
from functools import partial

import pytest
import requests
from allowance_client import verify_webhook
from allowance_client.receiver import Receiver
from allowance_client.receptions import Reception
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from foundation.kernel.times import utc_now
from policy.signer import receipt_jwk
from services.webhooks.signatures import sign_headers
from services.webhooks.signing_secrets import as_text

SECRET, OTHER_SECRET = b"s" * 32, b"o" * 32
KEY, OTHER_KEY = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
JWKS = {"keys": [receipt_jwk(KEY.public_key().public_bytes_raw())]}
BOTH = partial(verify_webhook, service="shop", secret=as_text(SECRET), keys=JWKS)


def event(event_id="evt_1", reason="Wetter für Øslo ☂"):
    data = {"service": "shop", "reason": reason}
    return {"id": event_id, "type": "payment.settled", "timestamp": "2026-11-20T17:33:14.396Z", "data": data}


EVENT = event()
BODY = json.dumps(EVENT, ensure_ascii=False).encode()


def signed(body=BODY, *, of="evt_1", at=0, secrets=(SECRET,), key=KEY):
    """Sign as an installation does; `at` in seconds from now."""
    return sign_headers(of, body, utc_now() + timedelta(seconds=at), secrets, key.sign)


class Listening:
    """A receiver in a thread of its own, and all that it showed."""

    def __init__(self):
        self.shown: list[Reception] = []
        self.receiver = Receiver(0, BOTH, self.shown.append)
        self.url = self.receiver.url
        self._thread = threading.Thread(target=self.receiver.serve)
        self._thread.start()

    def post(self, body=BODY, headers=None):
        with requests.Session() as session:
            session.trust_env = False
            return session.post(self.url, data=body, headers=headers or {}, timeout=30)

    def send(self, raw):
        """Send bytes and hang up one's own side; returns all that comes back."""
        with socket.create_connection(("127.0.0.1", self.receiver.port), timeout=30) as connection:
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as answer:
                return answer.read()

    def stop(self):
        self.receiver.stop()
        self._thread.join()
        self.receiver.close()


@pytest.fixture
def listening():
    made = []

    def listen():
        made.append(Listening())
        return made[-1]

    yield listen
    for one in made:
        one.stop()


def test_a_genuine_webhook_is_answered_with_204_and_shown(listening):
    developer = listening()

    answer = developer.post(BODY, signed())

    assert (answer.status_code, answer.content) == (204, b"")
    (shown,) = developer.shown
    assert (shown.id, shown.type, shown.event) == ("evt_1", "payment.settled", EVENT)
    assert (shown.reason, shown.is_again) == (None, False)


def _signed_with(old, new):
    body = BODY.replace(old, new)
    return signed(body), body


FALSE = {
    "another body": lambda: (signed(), BODY.replace(b"settled", b"failed")),
    "another id": lambda: (signed() | {"webhook-id": "evt_2"}, BODY),
    "another timestamp": lambda: (signed() | {"webhook-timestamp": signed(at=-9)["webhook-timestamp"]}, BODY),
    "another secret": lambda: (signed(secrets=[OTHER_SECRET]), BODY),
    "another key": lambda: (signed(key=OTHER_KEY), BODY),
    "only one of two that can be checked": lambda: (signed(secrets=[]), BODY),
    "a signature of another kind": lambda: (signed() | {"webhook-signature": "v2,abcd"}, BODY),
    "a signature in no form": lambda: (signed() | {"webhook-signature": "v1 v1a,, v1,=== v1a,é"}, BODY),
    "no id": lambda: (signed() | {"webhook-id": ""}, BODY),
    "no timestamp": lambda: (signed() | {"webhook-timestamp": ""}, BODY),
    "no signature": lambda: (signed() | {"webhook-signature": ""}, BODY),
    "ten minutes ago": lambda: (signed(at=-600), BODY),
    "in ten minutes": lambda: (signed(at=600), BODY),
    "at no moment": lambda: (signed() | {"webhook-timestamp": "nan"}, BODY),
    "at the end of time": lambda: (signed() | {"webhook-timestamp": "9" * 30}, BODY),
    "not UTF-8": lambda: (signed(), b"\xff"),
    "for another service": lambda: _signed_with(b"shop", b"book-shop"),
    "of a body that names the service twice": lambda: _signed_with(b'"service"', b'"service": "shop", "service"'),
    "no JSON": lambda: _signed_with(BODY, b"{"),
}


@pytest.mark.parametrize("case", FALSE)
def test_what_is_not_genuine_is_answered_with_401_and_the_reason(listening, case):
    developer = listening()
    headers, body = FALSE[case]()

    answer = developer.post(body, {name: value.encode() for name, value in headers.items()})

    (shown,) = developer.shown
    assert answer.status_code == 401
    assert shown.reason
    assert answer.text == f"{shown.reason}\n"
    assert not shown.is_again


def test_an_event_that_comes_again_is_marked(listening):
    developer = listening()
    developer.post(BODY, signed(secrets=[OTHER_SECRET]))
    developer.post(BODY, signed())
    developer.post(BODY, signed())
    other = json.dumps(event("evt_2")).encode()
    developer.post(other, signed(other, of="evt_2"))

    # What was not genuine does not count.
    assert [(one.id, one.is_again) for one in developer.shown] == [
        ("evt_1", False),
        ("evt_1", False),
        ("evt_1", True),
        ("evt_2", False),
    ]


def test_a_body_may_have_256_kib_and_no_more(listening):
    developer = listening()
    fits = json.dumps(event(reason="a" * (256 * 1024 - len(json.dumps(event(reason="")))))).encode()
    assert len(fits) == 256 * 1024

    assert developer.post(fits, signed(fits)).status_code == 204
    assert developer.post(fits + b" ", signed(fits + b" ")).status_code == 413


def test_a_body_that_is_far_too_large_may_be_sent_to_its_end(listening):
    head = b"POST / HTTP/1.1\r\nContent-Length: 16777216\r\n\r\n"

    assert listening().send(head + bytes(16_777_216)).startswith(b"HTTP/1.0 413 ")


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"POST / HTTP/1.1\r\nwebhook-id: evt_9\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nwebhook-id: evt_9\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nwebhook-id: evt_9\r\nContent-Length: 3\r\n\r\n{}", 400),
        (b"POST / HTTP/1.1\r\nwebhook-id: evt_9\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nwebhook-id: evt_9\r\n\r\n", 501),
    ],
)
def test_what_is_no_webhook_is_answered_and_shown(listening, raw, status):
    developer = listening()

    answer = developer.send(raw)

    assert answer.startswith(f"HTTP/1.0 {status} ".encode())
    assert [(one.status, one.id, one.event) for one in developer.shown] == [(status, "evt_9", None)]


def test_what_is_not_even_http_is_answered_and_shown(listening):
    developer = listening()

    assert b"Bad request" in developer.send(b"\x16\x03\x01 nonsense of four words\r\n\r\n")
    assert [one.status for one in developer.shown] == [400]


def test_who_says_nothing_keeps_nobody_waiting(listening):
    developer = listening()

    with socket.create_connection(("127.0.0.1", developer.receiver.port)):
        assert developer.post(BODY, signed()).status_code == 204

"""The developers' receiver: what it takes for genuine, what it answers, what it shows."""

import base64
import json
import socket
import threading
from datetime import timedelta

import pytest
import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from foundation.kernel.times import utc_now
from services.webhooks.receiver import Receiver, Reception
from services.webhooks.signatures import sign_headers
from services.webhooks.verifying import Verifier, key_in_use, read_secret

SECRET, OTHER_SECRET = b"s" * 32, b"o" * 32
KEY, OTHER_KEY = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
SHOP = "shop"
EVENT = {"id": "evt_1", "type": "payment.settled", "data": {"service": SHOP, "reason": "Wetter für Øslo ☂"}}
BODY = json.dumps(EVENT, ensure_ascii=False).encode()
BOTH = Verifier([SHOP], secrets=[SECRET], key=KEY.public_key())


def signed(body=BODY, *, of="evt_1", at=0, secrets=(SECRET,), key=KEY):
    """Sign as an installation does; `at` in seconds from now."""
    return sign_headers(of, body, utc_now() + timedelta(seconds=at), secrets, key.sign)


def jwk_of(key):
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return {"kty": "OKP", "crv": "Ed25519", "x": base64.urlsafe_b64encode(raw).rstrip(b"=").decode()}


class Listening:
    """A receiver in a thread of its own, and all that it showed."""

    def __init__(self, verifier):
        self.shown: list[Reception] = []
        self.receiver = Receiver(0, verifier, self.shown.append)
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

    def listen(verifier=BOTH):
        made.append(Listening(verifier))
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
    assert (shown.verdict.signatures, shown.verdict.reason, shown.is_again) == (("v1", "v1a"), None, False)


@pytest.mark.parametrize(
    ("verifier", "signatures"),
    [
        (Verifier([SHOP], secrets=[SECRET]), ("v1",)),
        (Verifier([SHOP], key=KEY.public_key()), ("v1a",)),
        (BOTH, ("v1", "v1a")),
    ],
)
def test_what_can_be_checked_is_checked(verifier, signatures):
    verdict = verifier.verify(signed(), BODY)

    assert (verdict.signatures, verdict.reason) == (signatures, None)


def test_without_secret_and_key_nothing_is_genuine():
    assert Verifier([SHOP]).verify(signed(), BODY).reason is not None


def test_while_a_secret_is_rotated_the_old_and_the_new_one_fit():
    sent = signed(secrets=[SECRET, OTHER_SECRET])

    for secrets in ([SECRET], [OTHER_SECRET], [OTHER_SECRET, SECRET], [b"x" * 32, OTHER_SECRET]):
        assert Verifier([SHOP], secrets=secrets).verify(sent, BODY).reason is None


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
}


@pytest.mark.parametrize("case", FALSE)
def test_what_is_not_genuine_is_answered_with_401_and_the_reason(listening, case):
    developer = listening()
    headers, body = FALSE[case]()

    answer = developer.post(body, {name: value.encode() for name, value in headers.items()})

    (shown,) = developer.shown
    assert answer.status_code == 401
    assert shown.verdict.reason
    assert answer.text == f"{shown.verdict.reason}\n"
    assert not shown.is_again


def test_one_of_several_signatures_is_enough():
    sent = signed()
    sent["webhook-signature"] = f"v1,{base64.b64encode(bytes(32)).decode()} {sent['webhook-signature']} v9,x"

    assert BOTH.verify(sent, BODY).reason is None


@pytest.mark.parametrize("seconds", [-600, 600])
def test_by_the_key_alone_what_is_old_is_not_genuine_either(seconds):
    assert Verifier([SHOP], key=KEY.public_key()).verify(signed(at=seconds), BODY).reason is not None


def test_a_signature_by_the_key_counts_as_v1a_only():
    sent = signed(secrets=[])
    sent["webhook-signature"] = sent["webhook-signature"].replace("v1a,", "v2,")

    assert Verifier([SHOP], key=KEY.public_key()).verify(sent, BODY).reason is not None


def test_an_event_that_comes_again_is_marked(listening):
    developer = listening()
    developer.post(BODY, signed(secrets=[OTHER_SECRET]))
    developer.post(BODY, signed())
    developer.post(BODY, signed())
    developer.post(BODY, signed(of="evt_2"))

    # What was not genuine does not count.
    assert [(one.id, one.is_again) for one in developer.shown] == [
        ("evt_1", False),
        ("evt_1", False),
        ("evt_1", True),
        ("evt_2", False),
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"data": {"service": "book-shop"}}', "It is for another service."),
        (b'{"data": {"service": ["shop"]}}', "The body names no service."),
        (b'{"data": {"service": "shop", "service": "shop"}}', "The body names no service."),
        (b'{"data": {"service": "book-shop"}, "data": {"service": "shop"}}', "The body names no service."),
        (b'{"service": "shop"}', "The body names no service."),
        (b'["shop"]', "The body names no service."),
        (b'{"data": {"service": "shop", "a": NaN}}', "The body names no service."),
        (b"[" * 200_000, "The body names no service."),
        (b"", "The body names no service."),
    ],
)
@pytest.mark.parametrize("verifier", ["by the secret", "by the key", "by both"])
def test_what_is_signed_and_not_for_the_service_is_answered_with_401(listening, body, reason, verifier):
    by = {
        "by the secret": Verifier([SHOP], secrets=[SECRET]),
        "by the key": Verifier([SHOP], key=KEY.public_key()),
        "by both": BOTH,
    }
    developer = listening(by[verifier])

    answer = developer.post(body, signed(body))

    assert (answer.status_code, answer.text) == (401, f"{reason}\n")
    assert not developer.shown[0].is_again


def test_a_receiver_of_two_services_takes_the_events_of_both_and_of_no_third():
    both = Verifier([SHOP, "book-shop"], key=KEY.public_key())
    bodies = [json.dumps({"data": {"service": name}}).encode() for name in (SHOP, "book-shop", "toy-shop")]

    reasons = [both.verify(signed(body), body).reason for body in bodies]

    assert reasons == [None, None, "It is for another service."]


def test_a_body_may_have_256_kib_and_no_more(listening):
    developer = listening()
    fits = b'{"data": {"service": "shop"}, "a": "%s"}'
    fits %= b"a" * (256 * 1024 - len(fits) + 2)
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


@pytest.mark.parametrize("text", ["", "whsec_", "c2VjcmV0", "whsec_?", "WHSEC_c2VjcmV0", "whsec_c2VjcmV"])
def test_a_secret_in_another_form_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        read_secret(text)


def test_the_key_in_use_is_the_first_ed25519_key():
    jwks = {"keys": [{"kty": "EC", "crv": "secp256k1"}, jwk_of(KEY), jwk_of(OTHER_KEY)]}

    assert key_in_use(jwks) == KEY.public_key()


@pytest.mark.parametrize(
    "jwks",
    [None, [], {}, {"keys": 1}, {"keys": [1]}, {"keys": [{"kty": "EC"}]}, {"keys": [{**jwk_of(KEY), "x": "AA"}]}],
)
def test_what_is_no_jwks_with_an_ed25519_key_is_refused(jwks):
    with pytest.raises(ValueError, match=r"."):
        key_in_use(jwks)

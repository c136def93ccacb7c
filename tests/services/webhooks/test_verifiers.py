"""The verifiers of docs/integrate/verify-webhooks.md, and the reference library in Python, on what is really sent."""

import json
from typing import Any

import pytest
from allowance_client.errors import WebhookInvalid
from allowance_client.members import read_object
from allowance_client.webhooks import read_secret, verify_webhook
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from standardwebhooks import Webhook, WebhookVerificationError

from foundation.kernel.times import utc_now
from policy.signer import published_keys, receipt_jwk
from policy.webhook_keys import sign_webhook
from services.models import WebhookEvent
from services.webhooks.operations import reveal_secrets, send_test_event
from services.webhooks.signatures import sign_headers
from services.webhooks.signing_secrets import as_text
from tests.support.factories import decide, make_service
from tests.support.signed_webhooks import (
    BODY,
    FALSE,
    FOREIGN_SECRET,
    GENUINE,
    KEY,
    OTHER_KEY,
    SECRET,
    _only_v1,
    on_page,
    python_of,
    sent,
    signed_by_hand,
    without,
)

SHOP = "shop"
CASES = [*((name, True) for name in GENUINE), *((name, False) for name in FALSE)]


@pytest.mark.parametrize(("case", "is_genuine"), CASES, ids=[case for case, _ in CASES])
def test_the_verifier_in_python_tells_what_is_genuine(case, is_genuine):
    headers, body = {**GENUINE, **FALSE}[case]()

    assert python_of("is_genuine")(as_text(SECRET), headers, body) is is_genuine


def test_the_verifiers_on_the_page_are_ten_lines_long():
    for language, name in (("python", "is_genuine"), ("javascript", "isGenuine")):
        lines = on_page(language, name).splitlines()
        start = next(number for number, line in enumerate(lines) if name in line)
        assert len(lines[start:]) <= 10


def test_the_verifier_in_python_takes_nothing_for_genuine_if_it_has_no_secret():
    assert not python_of("is_genuine")("whsec_", signed_by_hand(b""), BODY)


@pytest.mark.parametrize("case", GENUINE)
def test_the_reference_library_in_python_takes_what_is_sent(case):
    headers, body = GENUINE[case]()

    Webhook(as_text(SECRET)).verify(body, headers, json_parse=False)


def test_the_reference_library_in_python_refuses_another_secret():
    with pytest.raises(WebhookVerificationError):
        Webhook(as_text(FOREIGN_SECRET)).verify(BODY, sent(), json_parse=False)


def jwks_of(*keys):
    return {"keys": [{"kty": "EC", "crv": "secp256k1", "x": "eA"}, *map(_jwk_of, keys)]}


def _jwk_of(key: Ed25519PrivateKey) -> dict[str, str]:
    return receipt_jwk(key.public_key().public_bytes_raw())


def is_signed(headers, body=BODY, *keys, service=SHOP):
    """Ask the page's verifier of `v1a`; whatever comes over the wire, it answers."""
    told = python_of("is_signed")(jwks_of(*(keys or [KEY])), service, headers, body)
    assert isinstance(told, bool)
    return told


def test_the_verifier_of_v1a_takes_what_the_installation_signed_for_this_service():
    assert is_signed(sent())
    assert is_signed(sent(), BODY, KEY, OTHER_KEY)
    assert is_signed(sent(secrets=[]))
    assert is_signed(sent(seconds=-180))
    assert is_signed(sent() | {"webhook-signature": "v1a,AAAA " + sent()["webhook-signature"] + " v9,x"})


FALSE_V1A = {
    "another installation": lambda: (sent(key=OTHER_KEY), BODY),
    "another body": lambda: (sent(), BODY.replace(b"evt_1", b"evt_2")),
    "more of a body": lambda: (sent(), BODY + b" "),
    "another id": lambda: (sent() | {"webhook-id": "evt_2"}, BODY),
    "no id": lambda: (without("webhook-id"), BODY),
    "another timestamp": lambda: (sent() | {"webhook-timestamp": sent(seconds=-9)["webhook-timestamp"]}, BODY),
    "too old": lambda: (sent(seconds=-480), BODY),
    "too early": lambda: (sent(seconds=480), BODY),
    "no timestamp": lambda: (without("webhook-timestamp"), BODY),
    "no number for a timestamp": lambda: (sent() | {"webhook-timestamp": "nan"}, BODY),
    "no signature": lambda: (without("webhook-signature"), BODY),
    "no such signature": lambda: (sent() | {"webhook-signature": _only_v1()}, BODY),
    "what is no signature": lambda: (sent() | {"webhook-signature": "v1,AAAA v1a,AAAA v1a,A v1a v1a,é"}, BODY),
    "bytes that are no text, for a signature": lambda: (sent() | {"webhook-signature": "v1a,\udcff"}, BODY),
    "bytes that are no text, for an id": lambda: (sent() | {"webhook-id": "evt_\udcff"}, BODY),
}


@pytest.mark.parametrize("case", FALSE_V1A)
def test_the_verifier_of_v1a_takes_nothing_else(case):
    assert not is_signed(*FALSE_V1A[case]())


# Signed with the key of the installation, and not for this service.
OF_OTHERS = {
    "another service": {"data": {"service": "book-shop"}},
    "a service of nearly this name": {"data": {"service": "shop "}},
    "in other letters": {"data": {"service": "Shop"}},
    "of a name that contains this": {"data": {"service": "shop/2"}},
    "several services": {"data": {"service": [SHOP]}},
    "no service": {"data": {"reason": SHOP}},
    "null": {"data": {"service": None}},
    "a service elsewhere": {"service": SHOP, "data": {"metadata": {"service": SHOP}}},
    "no data": {"id": "evt_1"},
    "data of another form": {"data": SHOP},
    "no object": [SHOP],
}
BODIES_OF_OTHERS = {name: json.dumps(event).encode() for name, event in OF_OTHERS.items()} | {"no JSON": b"{", "": b""}


@pytest.mark.parametrize("case", BODIES_OF_OTHERS)
def test_no_verifier_of_v1a_takes_what_the_installation_signed_for_somebody_else(case):
    body = BODIES_OF_OTHERS[case]

    assert not is_signed(sent(body), body)
    with pytest.raises(WebhookInvalid):
        verify_webhook(sent(body), body, service=SHOP, keys=jwks_of(KEY))


@pytest.mark.django_db
@pytest.mark.parametrize("what", ["a payment", "a test"])
def test_a_genuine_event_of_another_service_is_refused_by_each_verifier(agent, what):
    """The attack: a payee hands an event of its own on to another payee, as it came."""
    victim, attacker = (make_service(webhook_url=f"https://{name}.example/") for name in ("victim", "attacker"))
    if what == "a payment":
        decide(agent, attacker)
    else:
        send_test_event(attacker.id, by="ann")
    event = WebhookEvent.objects.get(service=attacker)
    body = event.payload.encode()
    secrets = {one: read_secret(text) for one in (victim, attacker) for text in reveal_secrets(one.id, by="ann")}
    headers = sign_headers(event.pk, body, utc_now(), [secrets[attacker]], sign_webhook)
    jwks, verify = published_keys(), python_of("is_signed")

    assert verify(jwks, attacker.id, headers, body)
    assert not verify(jwks, victim.id, headers, body)
    assert not python_of("is_genuine")(as_text(secrets[victim]), headers, body)
    means: tuple[dict[str, Any], ...] = (
        {"keys": jwks}, {"secret": as_text(secrets[victim])}, {"secret": as_text(secrets[attacker])},
    )  # fmt: skip
    for by in means:
        with pytest.raises(WebhookInvalid):
            verify_webhook(headers, body, service=victim.id, **by)
    assert verify_webhook(headers, body, service=attacker.id, keys=jwks).service == attacker.id


@pytest.mark.django_db
def test_no_event_names_a_member_twice_whatever_an_agent_sent_with_its_payment(api, payment):
    """So it makes no difference that readers of JSON choose differently among two."""
    service = make_service(webhook_url="https://shop.example/")
    hostile = {"service": "another", 'a", "service': "x", "data": {"service": "y"}, "\\u0073ervice": "z"}

    assert api.pay({**payment, "service": service.id, "reason": '", "service": "x', "metadata": hostile}).json()["id"]

    event = read_object(WebhookEvent.objects.get(service=service).payload.encode())

    assert (event["data"]["service"], event["data"]["metadata"]) == (service.id, hostile)

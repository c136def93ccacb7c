"""What the client takes for genuine: receipts, webhooks and proofs, each signed as it is in life, and then spoilt."""

import base64
import json
import time
from typing import Any

import pytest
from allowance_client import errors, verify_proof, verify_receipt, verify_receipts, verify_webhook
from allowance_client.webhooks import read_secret
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from foundation.kernel.canonical import canonical_json
from foundation.kernel.times import utc_now
from ledger.receipts import FIRST_PREVIOUS_HASH, MEMBERS, seal
from policy.signer import published_keys
from policy.webhook_keys import sign_webhook
from services.models import WebhookEvent
from services.webhooks.operations import reveal_secrets
from services.webhooks.signatures import sign_headers
from services.webhooks.signing_secrets import as_text
from tests.clients.stage import NOW
from tests.support.factories import decide, make_agent, make_service
from tests.support.signed_webhooks import FALSE, FOREIGN_SECRET, KEY, NEW_SECRET, OTHER_KEY, SECRET, from_now


def text_of(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def jwk_of(key, key_id):
    x = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return {"kty": "OKP", "crv": "Ed25519", "kid": key_id, "x": text_of(x)}


JWKS = {"keys": [{"kty": "EC", "crv": "secp256k1", "kid": "pay"}, jwk_of(KEY, "now"), jwk_of(OTHER_KEY, "before")]}


# --- Receipts
def receipt(number=1, previous=FIRST_PREVIOUS_HASH, key=KEY, **changes):
    members: dict[str, Any] = {name: f"{name}-{number}" for name in MEMBERS if name not in {"hash", "signature"}}
    members |= {"agentId": "agent", "metadata": {"x": [0.5, "Ø☂", 10**15]}, "keyId": "now", "previousHash": previous}
    members |= changes
    hash_, signature = seal(members, key.sign)
    return {**members, "hash": hash_, "signature": signature}


def test_a_receipt_verifies_by_the_key_in_use_and_by_a_retired_one():
    verify_receipt(receipt(), JWKS)
    verify_receipt(receipt(key=OTHER_KEY, keyId="before"), JWKS["keys"])


@pytest.mark.parametrize("member", sorted(set(MEMBERS) - {"keyId"}))
def test_a_receipt_with_another_member_does_not(member):
    with pytest.raises(errors.ReceiptInvalid):
        verify_receipt({**receipt(), member: "other"}, JWKS)
    with pytest.raises(errors.ReceiptInvalid, match=f"{member} is missing"):
        verify_receipt({name: value for name, value in receipt().items() if name != member}, JWKS)


@pytest.mark.parametrize(
    "false",
    [
        receipt(keyId="unknown"),
        receipt(keyId="pay"),
        receipt(keyId="before"),
        receipt(key=Ed25519PrivateKey.generate()),
        {**receipt(), "later": 1},
        {**receipt(), "metadata": float("nan")},
        {**receipt(), "signature": "=="},
    ],
)
def test_a_receipt_that_nobody_sealed_does_not(false):
    with pytest.raises(errors.ReceiptInvalid):
        verify_receipt(false, JWKS)


def test_a_gap_in_a_chain_is_noticed_and_a_second_agent_is_none():
    first = receipt(1)
    second = receipt(2, first["hash"])
    third = receipt(3, second["hash"])
    other = receipt(1, agentId="other")

    assert verify_receipts([third, other, second, first], JWKS, from_the_first=True) == 4
    assert verify_receipts([third, second], JWKS) == 2
    for gap in ([third, first], [first, second], [second, second, first]):
        with pytest.raises(errors.ReceiptInvalid, match="missing"):
            verify_receipts(gap, JWKS)
    with pytest.raises(errors.ReceiptInvalid, match="not the agent's first"):
        verify_receipts([third, second], JWKS, from_the_first=True)


# --- Webhooks
EVENT: dict[str, Any] = {
    "id": "evt_01m7x0a3b2n5v8q4k6t1w9y0z7",
    "type": "payment.settled",
    "timestamp": "2026-11-20T17:33:14.396Z",
    "data": {"paymentId": "pay_1", "service": "shop", "reason": "Wetter für Øslo ☂"},
}
EITHER: dict[str, Any] = {"secret": as_text(SECRET), "keys": JWKS}


def signed(event=EVENT, *, seconds=0.0, secrets=(NEW_SECRET, SECRET), key=KEY, event_id=EVENT["id"]):
    body = json.dumps(event).encode()
    return sign_headers(event_id, body, from_now(seconds), secrets, key.sign), body


@pytest.mark.parametrize("by", [{"secret": EITHER["secret"]}, {"keys": JWKS}, EITHER], ids=["v1", "v1a", "both"])
def test_a_webhook_verifies(by):
    headers, body = signed()

    event = verify_webhook({name.title(): value for name, value in headers.items()}, body, service="shop", **by)

    assert (event.id, event.type, event.payment_id) == (EVENT["id"], "payment.settled", "pay_1")
    assert event.escrow_id is None  # of a server that does not tell it


@pytest.mark.parametrize("case", FALSE)
def test_what_our_own_verifiers_refuse_is_refused(case):
    headers, body = FALSE[case]()

    with pytest.raises(errors.WebhookInvalid):
        verify_webhook(headers, body, service="shop", secret=as_text(SECRET))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": OTHER_KEY}, "v1a"),
        ({"secrets": [FOREIGN_SECRET]}, "v1 "),
        ({"event": {**EVENT, "data": {**EVENT["data"], "service": "other"}}}, "another service"),
        ({"event": {**EVENT, "data": {}}}, "no event"),
        ({"event_id": "evt_2"}, "another event"),
        ({"seconds": -480}, "too old"),
        ({"seconds": 480}, "future"),
    ],
)
def test_a_webhook_that_is_not_for_us_does_not(options, words):
    with pytest.raises(errors.WebhookInvalid, match=words):
        verify_webhook(*signed(**options), service="shop", **EITHER)


@pytest.mark.parametrize("by", [{}, {"secret": ""}, {"secret": "whsec_"}, {"secret": []}, {"secret": "whsec_*"}])
def test_nothing_is_taken_for_genuine_without_anything_to_check_it_with(by):
    with pytest.raises(ValueError, match="secret"):
        verify_webhook(*signed(), service="shop", **by)


def test_what_a_payee_is_really_sent_verifies_for_this_payee_alone(db):
    service = make_service(webhook_url="https://payee.example/hook")
    entry = decide(make_agent(), service)
    event = WebhookEvent.objects.get(service=service)
    (secret,) = reveal_secrets(service.id, by="ann")
    headers = sign_headers(event.id, event.payload.encode(), utc_now(), [read_secret(secret)], sign_webhook)
    means: dict[str, Any] = {"secret": secret, "keys": published_keys()}

    received = verify_webhook(headers, event.payload.encode(), service=service.id, **means)

    assert (received.type, received.payment_id) == ("payment.approved", entry.payment_id)
    assert received.escrow_id == entry.explanation["escrowId"]
    with pytest.raises(errors.WebhookInvalid, match="another service"):
        verify_webhook(headers, event.payload.encode(), service=make_service().id, **means)


@pytest.mark.parametrize("by", [{}, {"service": "shop", "agent": "agent-research"}])
def test_one_receives_either_for_a_service_or_for_an_agent(by):
    with pytest.raises(ValueError, match="your service, or your agent"):
        verify_webhook(*signed(), **{**EITHER, **by})


@pytest.mark.parametrize("kind", ["approval.requested", "approval.approved", "approval.declined", "approval.expired"])
def test_what_an_owner_is_told_verifies_for_this_agent_alone_and_for_no_payee(kind):
    told = signed(event={**EVENT, "type": kind, "data": {**EVENT["data"], "agentId": "agent-research"}})

    event = verify_webhook(*told, agent="agent-research", **EITHER)

    assert (event.type, event.agent_id, event.service) == (kind, "agent-research", "shop")
    with pytest.raises(errors.WebhookInvalid, match="another agent"):
        verify_webhook(*told, agent="agent-other", **EITHER)
    with pytest.raises(errors.WebhookInvalid, match="another service"):
        verify_webhook(*told, service="shop", **EITHER)


def test_what_a_payee_is_told_is_for_no_owner():
    with pytest.raises(errors.WebhookInvalid, match="another agent"):
        verify_webhook(*signed(), agent=EVENT["data"].get("agentId", "agent"), **EITHER)


# --- Proofs
CLAIMS: dict[str, Any] = {
    "iss": "allowance", "aud": "shop", "sub": "pay_1", "iat": int(time.time()), "logId": "log_1", "agentId": "agent",
    "amount": "0.50", "asset": "USDC", "recipient": "eip155:1:0x00", "status": "settled", "tx": "0x01",
    "createdAt": f"{NOW:%Y-%m-%dT%H:%M:%S}.000Z", "settledAt": f"{NOW:%Y-%m-%dT%H:%M:%S}.000Z",
}  # fmt: skip
HEADER = {"alg": "EdDSA", "typ": "allowance-payment+jwt", "kid": "now"}


def proof_of(header=HEADER, key=KEY, **changes):
    content = f"{text_of(canonical_json(header))}.{text_of(canonical_json({**CLAIMS, **changes}))}"
    return f"{content}.{text_of(key.sign(content.encode()))}"


def test_a_proof_verifies():
    claims = verify_proof(proof_of(later="member"), JWKS, service="shop")

    assert (claims.payment_id, claims.status, str(claims.amount)) == ("pay_1", "settled", "0.50")
    assert claims.escrow_id is None  # of a server that does not tell it
    assert verify_proof(proof_of(escrowId="0x07"), JWKS, service="shop").escrow_id == "0x07"
    verify_proof(proof_of({**HEADER, "kid": "before"}, OTHER_KEY), JWKS, service="shop")
    assert verify_proof(proof_of(status="approved"), JWKS, service="shop", must_be_settled=False).status == "approved"


@pytest.mark.parametrize(
    "proof",
    [
        "", "..", "a.b", "a.b.c", "a.b.c.d", proof_of() + ".", proof_of() + "=", proof_of()[:-1], proof_of() * 200,
        proof_of({**HEADER, "alg": "none"}), proof_of({**HEADER, "alg": "HS256"}), proof_of({**HEADER, "alg": "ES256"}),
        proof_of({**HEADER, "typ": "JWT"}), proof_of({"alg": "EdDSA", "kid": "now"}),
        proof_of({**HEADER, "kid": "unknown"}), proof_of({**HEADER, "kid": "pay"}), proof_of({**HEADER, "kid": None}),
        proof_of({**HEADER, "kid": "before"}), proof_of({**HEADER, "crit": ["x"]}), proof_of({**HEADER, "b64": False}),
        proof_of(key=OTHER_KEY), proof_of(key=Ed25519PrivateKey.generate()),
        proof_of().rpartition(".")[0] + ".", proof_of(status="approved"), proof_of(status="failed"),
        proof_of(aud="other"), proof_of(aud=["shop"]), proof_of(iss="other"), proof_of(iat=CLAIMS["iat"] + 86_400),
        proof_of(iat="now"), proof_of(amount=0.5), proof_of(sub=None),
    ],
)  # fmt: skip
def test_what_is_no_proof_for_us_is_refused(proof):
    with pytest.raises(errors.ProofInvalid):
        verify_proof(proof, JWKS, service="shop")

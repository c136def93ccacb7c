"""A thief of the key that signs webhooks: what it signs passes for a webhook, and for nothing else."""

import base64
from typing import Any

import jwt
import pytest
from allowance_client.errors import ProofInvalid, ReceiptInvalid, WebhookInvalid
from allowance_client.proofs import verify_proof
from allowance_client.receipts import verify_receipt
from allowance_client.webhooks import verify_webhook
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from foundation.environment.keys import held_key
from foundation.environment.process_types import ProcessType
from foundation.kernel.times import utc_now
from ledger import receipts
from ledger.receipts import ReceiptError
from policy.signer import PROOF_TYPE, published_keys, receipt_jwk
from policy.webhook_keys import webhook_signers
from services.models import WebhookEvent
from services.webhooks.signatures import sign_headers
from tests.services.webhooks.couriers import make_event, make_payee
from tests.support.holders import READERS

CLAIMS = {"iss": "allowance", "aud": "shop", "sub": "pay_1", "status": "settled", "iat": 1_800_000_000}


def stolen() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(held_key("WEBHOOK_SIGNING_KEY"))


def key_ids() -> list[Any]:
    """What a thief may name its key by: nothing, what it would be called, and the key whose place it takes."""
    own = receipt_jwk(stolen().public_key().public_bytes_raw())["kid"]
    named = [key["kid"] for key in published_keys()["keys"] if "kid" in key]
    return [None, "", own, *named]


def test_the_process_webhooks_has_no_key_of_receipts_and_proofs() -> None:
    secrets = {name for name, readers in READERS.items() if ProcessType.WEBHOOKS in readers}
    assert {"WEBHOOK_SIGNING_KEY", "WEBHOOK_SECRETS_KEY"} < secrets
    assert not [name for name in secrets if name.startswith(("POLICY_SIGNER", "RELAYER"))]


def test_the_key_is_published_first_and_under_no_name() -> None:
    first, *others = published_keys()["keys"]
    public = base64.urlsafe_b64encode(stolen().public_key().public_bytes_raw()).rstrip(b"=").decode()
    assert (first["x"], "kid" in first) == (public, False)
    assert all(key["kid"] and key["x"] != public for key in others)


@pytest.mark.parametrize("number", range(5))
def test_it_proves_no_payment_to_any_verifier(number: int) -> None:
    key_id = key_ids()[number]
    headers = {"typ": PROOF_TYPE} if key_id is None else {"typ": PROOF_TYPE, "kid": key_id}
    proof = jwt.encode(CLAIMS, stolen(), algorithm="EdDSA", headers=headers)

    with pytest.raises(ProofInvalid):
        verify_proof(proof, published_keys(), service="shop")
    with pytest.raises((jwt.InvalidTokenError, KeyError)):
        read_as_documented(proof)


def read_as_documented(proof: str) -> Any:
    keys = jwt.PyJWKSet.from_dict(published_keys())
    return jwt.decode(proof, keys[jwt.get_unverified_header(proof)["kid"]], algorithms=["EdDSA"], audience="shop")


@pytest.mark.parametrize("number", range(5))
def test_it_seals_no_log_entry(number: int, api: Any, agent: Any, payment: Any) -> None:
    assert api.pay(payment).status_code == 201
    (entry,) = api.get("/v1/logs", {"agentId": agent.id}).json()["data"]
    forged = {**entry, "amount": "999.00", "keyId": key_ids()[number]}
    forged["hash"], forged["signature"] = receipts.seal(forged, stolen().sign)

    with pytest.raises(ReceiptError):
        receipts.verify(forged, published_keys()["keys"])
    with pytest.raises(ReceiptInvalid):
        verify_receipt(forged, published_keys())


def test_for_a_day_both_keys_sign_and_who_knows_either_verifies(db: None, settings: Any) -> None:
    earlier, event = (
        Ed25519PrivateKey.generate(),
        WebhookEvent.objects.get(pk=make_event(make_payee("https://shop.example/"))),
    )

    def fits(key: Ed25519PrivateKey) -> bool:
        keys = {"keys": [receipt_jwk(key.public_key().public_bytes_raw())]}
        try:
            verify_webhook(headers, body, service=str(event.service_id), keys=keys)
        except WebhookInvalid:
            return False
        return True

    body = event.payload.encode()
    headers = sign_headers(event.pk, body, utc_now(), [b"secret"], *webhook_signers())
    assert (fits(stolen()), fits(earlier)) == (True, False)

    settings.WEBHOOK_SIGNING_KEY_FALLBACKS = [earlier.private_bytes_raw()]
    headers = sign_headers(event.pk, body, utc_now(), [b"secret"], *webhook_signers())

    assert (fits(stolen()), fits(earlier)) == (True, True)
    assert [one.partition(",")[0] for one in headers["webhook-signature"].split()] == ["v1", "v1a", "v1a"]

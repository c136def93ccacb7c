"""`GET /v1/payments/{id}/proof`: verified as a payee does, by other people's library and the published keys."""

import base64
import json
import time
from typing import Any

import jwt
import pytest

from foundation.kernel.times import format_instant, utc_now
from ledger.receipts import ReceiptError, verify
from payments.models import Payment, Settlement
from policy.signer import LocalSigner, local_signer
from policy.webhook_keys import sign_webhook
from tests.documents.pages import blocks_of
from tests.support.answers import error_of
from tests.support.factories import decide, make_agent

CLAIMS = [
    "iss", "aud", "sub", "iat", "logId", "agentId", "amount", "asset", "recipient", "status", "tx", "createdAt",
    "settledAt", "escrowId",
]  # fmt: skip


@pytest.fixture
def settled(agent, service):
    entry, now = decide(agent, service, "0.50"), utc_now()
    Payment.objects.filter(pk=entry.payment_id).update(status="settled", settled_at=now)
    Settlement.objects.filter(pk=entry.tx).update(state="final")
    return Payment.objects.get(pk=entry.payment_id)


def prove(client, payment_id):
    response = client.get(f"/v1/payments/{payment_id}/proof")
    assert response.status_code == 200, response.content
    return response.json()


def read(anonymous, proof, service):
    """Verify a proof as the payee of this service, and return its claims."""
    keys = jwt.PyJWKSet.from_dict(anonymous.get("/.well-known/allowance-keys.json").json())
    header = jwt.get_unverified_header(proof)
    return jwt.decode(
        proof, keys[header["kid"]], algorithms=["EdDSA"], audience=service.id, issuer="allowance",
        options={"require": ["iss", "aud", "sub", "iat"]},
    )  # fmt: skip


def test_the_payee_verifies_with_the_published_keys_that_it_was_paid(api, anonymous, service, settled):
    proof = prove(api, settled.pk)

    claims = read(anonymous, proof["proof"], service)

    assert [proof[name] for name in ("paymentId", "service", "status")] == [settled.pk, service.id, "settled"]
    assert list(proof) == ["paymentId", "service", "status", "proof"]
    assert sorted(claims) == sorted(CLAIMS)
    assert abs(claims.pop("iat") - time.time()) < 60
    assert claims == {
        "iss": "allowance", "aud": service.id, "sub": settled.pk, "logId": settled.entry_id,
        "agentId": settled.agent_id, "amount": "0.50", "asset": "USDC",
        "recipient": f"eip155:31337:{service.address}", "status": "settled", "tx": settled.entry.tx,
        "createdAt": format_instant(settled.created_at), "settledAt": format_instant(settled.settled_at),
        "escrowId": settled.escrow_id,
    }  # fmt: skip


def test_its_header_says_what_it_is_and_by_which_key(api, settled):
    header = jwt.get_unverified_header(prove(api, settled.pk)["proof"])

    assert header == {"alg": "EdDSA", "typ": "allowance-payment+jwt", "kid": local_signer().key_id}


def test_before_the_end_and_after_a_failure_it_names_no_transaction(api, anonymous, agent, service):
    payment = Payment.objects.filter(pk=decide(agent, service).payment_id)
    for status, failed_at in (("approved", None), ("failed", utc_now())):
        payment.update(status=status, failed_at=failed_at)

        claims = read(anonymous, prove(api, payment.get().pk)["proof"], service)

        assert (claims["status"], claims["tx"], claims["settledAt"]) == (status, None, None)


def test_another_payee_refuses_it(api, anonymous, service, settled):
    service.id = "another"

    with pytest.raises(jwt.InvalidAudienceError):
        read(anonymous, prove(api, settled.pk)["proof"], service)


@pytest.mark.parametrize("change", [{"amount": "500"}, {"status": "settled"}, {"sub": "pay_other"}])
def test_a_changed_proof_is_refused(api, anonymous, agent, service, change):
    header, claims, signature = prove(api, decide(agent, service).payment_id)["proof"].split(".")
    changed = {**json.loads(base64.urlsafe_b64decode(claims + "==")), **change}
    claims = base64.urlsafe_b64encode(json.dumps(changed).encode()).decode().rstrip("=")

    with pytest.raises(jwt.InvalidSignatureError):
        read(anonymous, f"{header}.{claims}.{signature}", service)


def test_it_tells_nothing_of_the_agents_money(api, settled):
    claims = jwt.decode(prove(api, settled.pk)["proof"], options={"verify_signature": False})

    assert sorted(claims) == sorted(CLAIMS)


# --- What docs/integrate/payees.md tells payees to do
def read_proof(*arguments):
    (block,) = (block for block in blocks_of("docs/integrate/payees.md") if "def read_proof(" in block.text)
    namespace: dict[str, Any] = {}
    exec(block.text, namespace)  # noqa: S102 - our own page
    return namespace["read_proof"](*arguments)


def test_the_verifier_on_the_page_takes_the_proof_of_a_settled_payment(api, anonymous, service, settled):
    jwks = anonymous.get("/.well-known/allowance-keys.json").json()

    claims = read_proof(prove(api, settled.pk)["proof"], service.id, jwks)

    assert (claims["sub"], claims["amount"], claims["tx"]) == (settled.pk, "0.50", settled.entry.tx)


def test_the_verifier_on_the_page_refuses_every_other_one(api, anonymous, agent, service, settled):
    jwks = anonymous.get("/.well-known/allowance-keys.json").json()
    genuine = prove(api, settled.pk)["proof"]
    header, claims, signature = genuine.split(".")
    stranger = LocalSigner(bytes(31) + b"\x07", bytes(31) + b"\x08")
    secret = "a secret that is long enough for this algorithm"
    read = jwt.decode(genuine, options={"verify_signature": False})
    refused = {
        "not settled": (prove(api, decide(agent, service).payment_id)["proof"], service.id, jwks),
        "for another": (genuine, "another", jwks),
        "by a stranger": (stranger.sign_proof(read), service.id, jwks),
        "by our key, in a stranger's set": (genuine, service.id, {"keys": stranger.public_keys()}),
        "without an algorithm": (jwt.encode(read, "", "none"), service.id, jwks),
        "with another algorithm": (jwt.encode(read, secret, "HS256", {"kid": local_signer().key_id}), service.id, jwks),
        "no longer signed": (f"{header}.{claims}.", service.id, jwks),
        "cut off": (f"{header}.{claims}", service.id, jwks),
        "turned around": (f"{claims}.{header}.{signature}", service.id, jwks),
        "nothing": ("", service.id, jwks),
    }

    for arguments in refused.values():
        with pytest.raises(ValueError, match=r"^This (proof|is not)"):
            read_proof(*arguments)


# --- The same key signs receipts, webhooks and proofs
def test_a_proof_is_no_receipt_and_no_webhook(api, agent, service, settled):
    proof = prove(api, settled.pk)["proof"]
    content, _, signature = proof.rpartition(".")

    assert content.startswith("eyJ")
    (entry,) = api.get("/v1/logs", {"agentId": agent.id}).json()["data"]
    with pytest.raises(ReceiptError):
        verify({**entry, "signature": signature}, [local_signer().public_keys()[0]])
    with pytest.raises(ValueError, match="begins with the id of its event"):
        sign_webhook(content.encode())
    with pytest.raises(ValueError, match="a JSON object"):
        local_signer().sign_receipt(content.encode())


def test_a_receipts_signature_makes_no_proof(api, anonymous, agent, service, settled):
    header, claims, _ = prove(api, settled.pk)["proof"].split(".")
    (entry,) = api.get("/v1/logs", {"agentId": agent.id}).json()["data"]

    with pytest.raises(jwt.InvalidSignatureError):
        read(anonymous, f"{header}.{claims}.{entry['signature']}", service)


def test_the_signer_writes_the_header_whatever_is_claimed():
    signer = LocalSigner(bytes(31) + b"\x01")
    for claims in ({}, {"alg": "none", "typ": "x", "kid": "y"}, {"id": "evt_1"}):
        header = jwt.get_unverified_header(signer.sign_proof(claims))
        assert header == {"alg": "EdDSA", "typ": "allowance-payment+jwt", "kid": signer.key_id}


def test_a_process_without_the_key_answers_503(api, settled, monkeypatch):
    monkeypatch.setattr("payments.api.read_views.local_signer", LocalSigner)

    error_of(api.get(f"/v1/payments/{settled.pk}/proof"), 503, "policy_signer_unavailable")


# --- Who may have it
def test_a_bound_key_proves_its_own_payments_only(client_of, agent, settled):
    path = f"/v1/payments/{settled.pk}/proof"

    assert client_of(agent=agent).get(path).status_code == 200
    assert client_of(agent=agent).get(f"{path}/").status_code == 200
    error_of(client_of(agent=make_agent()).get(path), 404, "payment_not_found")


@pytest.mark.parametrize(
    "payment_id", ["x", "request", "%00", "%ff", "pay_%0A", "..", "'--", "x" * 5000, "pay_" + "0" * 26]
)
def test_a_payment_that_does_not_exist_has_no_proof(api, payment_id):
    error_of(api.get(f"/v1/payments/{payment_id}/proof"), 404, "payment_not_found")

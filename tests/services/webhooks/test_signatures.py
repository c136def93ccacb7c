"""Signatures, as the reference library and anybody with the published key verify them."""

import base64
import hmac
import json
from datetime import UTC, datetime

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks import Webhook, WebhookVerificationError

from foundation.kernel.times import utc_now
from policy.signer import published_keys
from policy.webhook_keys import sign_webhook
from services.webhooks.courier import Courier
from services.webhooks.signatures import sign_headers
from services.webhooks.signing_secrets import as_text

SECRET, OLD_SECRET = b"n" * 32, b"o" * 32
BODY = json.dumps({"id": "evt_1", "data": {"reason": "Øl, 3 €\n\u2028"}}, ensure_ascii=False).encode()


def signed(*, event_id="evt_1", body=BODY, at=None, secrets=(SECRET,)):
    return sign_headers(event_id, body, at or utc_now(), secrets, sign_webhook)


def signatures(headers, version):
    """List the signatures of a version, decoded."""
    pairs = [one.split(",") for one in headers["webhook-signature"].split(" ")]
    return [base64.b64decode(signature, validate=True) for found, signature in pairs if found == version]


def published_key():
    """Read the key as a payee does, from /.well-known/allowance-keys.json."""
    jwk = next(key for key in published_keys()["keys"] if key.get("crv") == "Ed25519")
    return Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(jwk["x"] + "="))


def verify_asymmetric(headers, body):
    (signature,) = signatures(headers, "v1a")
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    published_key().verify(signature, content)


def test_the_reference_library_verifies_with_the_secret_that_the_console_shows():
    assert Webhook(as_text(SECRET)).verify(BODY.decode(), signed()) == json.loads(BODY)


def test_anybody_verifies_with_the_published_key():
    verify_asymmetric(signed(), BODY)


def test_while_a_secret_is_rotated_both_verify_and_there_is_one_signature_for_each():
    headers = signed(secrets=(SECRET, OLD_SECRET))

    for secret in (SECRET, OLD_SECRET):
        Webhook(as_text(secret)).verify(BODY.decode(), headers)
    assert (len(signatures(headers, "v1")), len(signatures(headers, "v1a"))) == (2, 1)


def test_another_secret_does_not_verify():
    with pytest.raises(WebhookVerificationError):
        Webhook(as_text(OLD_SECRET)).verify(BODY.decode(), signed())


def test_the_timestamp_is_the_attempts_in_whole_seconds_and_signed():
    at = datetime(2026, 3, 29, 1, 59, 59, 999_999, tzinfo=UTC)  # an hour that some clocks skip
    headers = signed(at=at)

    assert headers["webhook-timestamp"] == "1774749599"
    verify_asymmetric(headers, BODY)
    assert signatures(headers, "v1") == [hmac.digest(SECRET, b"evt_1.1774749599." + BODY, "sha256")]


@pytest.mark.parametrize("header", ["webhook-id", "webhook-timestamp"])
def test_a_changed_header_fails(header):
    headers = signed()
    changed = {**headers, header: headers[header] + "1" if header == "webhook-id" else str(int(headers[header]) + 60)}

    with pytest.raises(WebhookVerificationError):
        Webhook(as_text(SECRET)).verify(BODY.decode(), changed)
    with pytest.raises(InvalidSignature):
        verify_asymmetric(changed, BODY)


@pytest.mark.parametrize("body", [BODY + b" ", BODY.replace(b"3", b"4"), BODY[:-1]])
def test_a_changed_body_fails(body):
    with pytest.raises(WebhookVerificationError):
        Webhook(as_text(SECRET)).verify(body.decode(), signed())
    with pytest.raises(InvalidSignature):
        verify_asymmetric(signed(), body)


def test_the_installations_signer_is_the_policy_signer():
    content = b"evt_1.1774749599." + BODY

    (sign,) = Courier().signers
    published_key().verify(sign(content), content)


@pytest.mark.parametrize("content", [b"", b"evt-1.", b'{"id":"evt_1"}', b" evt_1.", b"EVT_1.", b"\x19\x01evt_"])
def test_the_signer_refuses_what_does_not_begin_as_an_event_does(content):
    with pytest.raises(ValueError, match="begins with the id of its event"):
        sign_webhook(content)

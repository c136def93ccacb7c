"""Verify webhooks as a payee does, or the owner of an agent: genuine, fresh, and for one's own service or agent.

Source: docs/integrate/payees.md; docs/integrate/agents.md.
"""

import base64
import binascii
import hmac
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from allowance_client.errors import WebhookInvalid
from allowance_client.members import MalformedJson, Members, read_object
from allowance_client.public_keys import Jwks, is_signed, key_in_use

_LONGEST_TIMESTAMP = 11
# The types of events that the owners of agents get, and no payee.
_OF_OWNERS = "approval."


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """An event that is genuine. It may come twice, and in any order: remember each `id`. `data`: the payment.

    `service` is the payee of the payment; empty in a test event of an agent's owner.
    """

    id: str
    type: str
    timestamp: datetime
    service: str
    data: Mapping[str, Any]
    raw: Mapping[str, Any] = field(repr=False)

    @property
    def payment_id(self) -> str | None:
        """The payment's id; None in a test event."""
        return Members(self.data).optional_text("paymentId")

    @property
    def agent_id(self) -> str | None:
        """The id of the agent that pays; None in a test event of a payee."""
        return Members(self.data).optional_text("agentId")

    @property
    def escrow_id(self) -> str | None:
        """What its chain knows the payment by; None in a test event, and from a server that does not tell it."""
        return Members(self.data).optional_text("escrowId")


def verify_webhook(
    headers: Mapping[str, str],
    body: bytes,
    *,
    service: str | None = None,
    agent: str | None = None,
    secret: str | Iterable[str] | None = None,
    keys: Jwks | None = None,
    tolerance_s: float = 300,
) -> WebhookEvent:
    """Check a webhook by its headers and the bytes of its body as they came.

    `service` is your own id, if you are a payee; `agent` is the id of your agent, if you are its owner. `secret`:
    yours, `whsec_…`, or several, one of which must fit (`v1`). `keys`: the published keys, the first of which must fit
    (`v1a`); only payees get that. Everything that is given is checked.

    Raises:
        WebhookInvalid: names the first thing that is wrong.
        ValueError: there is neither a secret nor a key, what is given as a secret is none, or there is not one of
            `service` and `agent`.
    """
    if (service is None) == (agent is None):
        raise ValueError("Give your service, or your agent.")
    secrets = [] if secret is None else [read_secret(one) for one in ([secret] if isinstance(secret, str) else secret)]
    if not secrets and keys is None:
        raise ValueError("Give the secret, the published keys, or both.")
    signed = _Signed.read(headers, body)
    if not signed.is_fresh(tolerance_s):
        raise WebhookInvalid("The webhook is too old, or of the future.")
    if secrets and not signed.fits_a_secret(secrets):
        raise WebhookInvalid("No v1 signature fits.")
    if keys is not None and not signed.fits_the_key(keys):
        raise WebhookInvalid("No v1a signature fits.")
    return _read_event(body, signed.id, service, agent)


@dataclass(frozen=True, slots=True)
class _Signed:
    """What is signed, and the signatures by their kind."""

    id: str
    timestamp: str
    content: bytes
    signatures: tuple[tuple[str, bytes], ...]

    @classmethod
    def read(cls, headers: Mapping[str, str], body: bytes) -> "_Signed":
        lower = {name.lower(): value for name, value in headers.items()}
        names = ("webhook-id", "webhook-timestamp", "webhook-signature")
        if missing := [name for name in names if not lower.get(name)]:
            raise WebhookInvalid(f"The header {missing[0]} is missing.")
        event_id, timestamp, signatures = (lower[name] for name in names)
        try:
            content = f"{event_id}.{timestamp}.".encode() + body
        except UnicodeEncodeError as error:
            raise WebhookInvalid("The headers are no text.") from error
        parts = [one.partition(",") for one in signatures.split()]
        return cls(event_id, timestamp, content, tuple((kind, _from_base64(text)) for kind, _, text in parts))

    def is_fresh(self, tolerance_s: float) -> bool:
        text = self.timestamp
        if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_TIMESTAMP):
            return False
        return abs(time.time() - int(text)) <= tolerance_s

    def fits_a_secret(self, secrets: list[bytes]) -> bool:
        expected = [hmac.digest(secret, self.content, "sha256") for secret in secrets]
        given = [signature for kind, signature in self.signatures if kind == "v1"]
        return any(hmac.compare_digest(one, other) for one in expected for other in given)

    def fits_the_key(self, keys: Jwks) -> bool:
        try:
            key = key_in_use(keys)
        except ValueError as error:
            raise WebhookInvalid("The published key cannot be read.") from error
        given = [signature for kind, signature in self.signatures if kind == "v1a"]
        return key is not None and any(is_signed(key, signature, self.content) for signature in given)


def _read_event(body: bytes, event_id: str, service: str | None, agent: str | None) -> WebhookEvent:
    """Read what is signed. The key of an installation signs for all of its services: this one must be yours."""
    try:
        raw = read_object(body)
        members = Members(raw)
        data = members.object("data")
        event = WebhookEvent(
            id=members.text("id"),
            type=members.text("type"),
            timestamp=members.instant("timestamp"),
            service=Members(data).text("service") if agent is None else Members(data).optional_text("service") or "",
            data=data,
            raw=raw,
        )
    except MalformedJson as error:
        raise WebhookInvalid(f"The body is no event. {error}") from error
    _check_receiver(event, service, agent)
    if event.id != event_id:
        raise WebhookInvalid("The body is another event's.")
    return event


def _check_receiver(event: WebhookEvent, service: str | None, agent: str | None) -> None:
    is_of_owner = event.type.startswith(_OF_OWNERS) or not event.service
    if service is not None and (is_of_owner or event.service != service):
        raise WebhookInvalid("The webhook is for another service.")
    if agent is not None and (not is_of_owner or event.agent_id != agent):
        raise WebhookInvalid("The webhook is for another agent.")


def read_secret(text: str) -> bytes:
    """Read a secret as it is shown. Raises `ValueError`, which does not show it."""
    try:
        secret = base64.b64decode(text.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not secret or not text.startswith("whsec_"):
        raise ValueError("A webhook's secret is whsec_ and base64.")
    return secret


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return b""  # which no signature is

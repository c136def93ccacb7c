"""A well-formed payment request, as a value. Pure."""

from dataclasses import dataclass
from decimal import Decimal

from allowance.kernel.assets import Asset


@dataclass(frozen=True, slots=True)
class PaymentRequest:
    """What an agent asks for. `amount_text` is the amount as written, `metadata_json` canonical or None.

    `fingerprint` is the SHA-256 of the whole body as it was sent, unknown members included.
    """

    agent_id: str
    service: str
    amount: Decimal
    amount_text: str
    asset: Asset
    reason: str
    metadata_json: str | None
    idempotency_key: str
    fingerprint: bytes

"""What a payee's 402 asks for (x402, version 2): read it, choose what may be paid, and write the header that pays.

Everything in a 402 is a stranger's word. What is read here decides only whether to ask: what is paid, the API decides.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from allowance_client.members import MalformedJson, Members, read_object
from allowance_client.models import Json

DEMAND_HEADER, PAYMENT_HEADER = "PAYMENT-REQUIRED", "PAYMENT-SIGNATURE"
_LONGEST_HEADER = 64 * 1024
_MOST_DIGITS = 26
_BY_AUTHORIZATION = (None, "eip3009")


@dataclass(frozen=True, slots=True)
class DemandedPayment:
    """An approved payment that the payee takes itself. `header`: what to send it as `PAYMENT-SIGNATURE`.

    If a person had to approve it first, it holds from that moment on for as long as the payee's 402 said.
    """

    id: str
    amount: Decimal
    asset: str
    service: str
    header: str = field(repr=False)
    created_at: datetime
    idempotency_key: str
    is_replay: bool
    raw: Json = field(repr=False)

    @classmethod
    def read(cls, raw: Json, *, idempotency_key: str, is_replay: bool) -> "DemandedPayment":
        members = Members(raw)
        payload = json.dumps(members.object("paymentPayload"), ensure_ascii=False, separators=(",", ":"))
        return cls(
            id=members.text("id"),
            amount=members.amount("amount"),
            asset=members.text("asset"),
            service=members.text("service"),
            header=base64.b64encode(payload.encode()).decode(),
            created_at=members.instant("createdAt"),
            idempotency_key=idempotency_key,
            is_replay=is_replay,
            raw=raw,
        )


def read_demand(header: str | None) -> tuple[Mapping[str, Any], ...]:
    """Read the `accepts` of a 402's header PAYMENT-REQUIRED; what is none of version 2 accepts nothing."""
    if header is None or len(header) > _LONGEST_HEADER:
        return ()
    try:
        demand = Members(read_object(base64.b64decode(header, validate=True)))
        return demand.raw_objects("accepts") if demand.integer("x402Version") == 2 else ()  # noqa: PLR2004
    except (binascii.Error, MalformedJson):
        return ()


def choose(accepts: tuple[Mapping[str, Any], ...], most_units: int) -> tuple[Mapping[str, Any], ...]:
    """Choose what an escrow can pay and is within the limit, in the payee's own order."""
    return tuple(one for one in accepts if _is_payable(one) and int(one["amount"]) <= most_units)


def _is_payable(one: Mapping[str, Any]) -> bool:
    amount, network, extra = one.get("amount"), one.get("network"), one.get("extra")
    return (
        one.get("scheme") == "exact"
        and isinstance(network, str)
        and network.startswith("eip155:")
        and isinstance(amount, str)
        and amount.isascii()
        and amount.isdecimal()
        and len(amount) <= _MOST_DIGITS
        and isinstance(extra, dict)
        and extra.get("assetTransferMethod") in _BY_AUTHORIZATION
    )

"""Make the row of a newly signed transaction, for all kinds of transactions."""

from collections.abc import Sequence
from datetime import datetime
from decimal import ROUND_CEILING, Decimal
from functools import partial
from typing import Any

from django.db import transaction

from chains.catalogue import alias_of
from chains.port import SignedTransaction
from foundation.kernel.counters import SETTLEMENT_CHANGES
from foundation.kernel.times import utc_now
from payments.lifecycle import SettlementState
from payments.models import Leg, Payment, Relayer, Settlement

# Of a coin: what a payment costs at the very least is a billion times as much.
_SMALLEST_SHARE = Decimal("1e-18")


def settlement_row(
    signed: SignedTransaction,
    at: datetime,
    *,
    chain: str,
    relayer_id: int,
    nonce: int | None,
    first_payment_id: str | None = None,
    is_void: bool = False,
) -> dict[str, Any]:
    """Return the columns of a settlement that is not broadcast yet. Without legs it only uses up its nonce."""
    return {
        "tx": signed.tx,
        "payment_id": first_payment_id,
        "chain": chain,
        "relayer_id": relayer_id,
        "is_void": is_void,
        "nonce": nonce,
        "raw": signed.raw,
        "valid_until": signed.valid_until,
        "valid_until_height": signed.valid_until_height,
        "valid_from_block": signed.valid_from_block,
        "most_cost": signed.most_cost,
        "state": SettlementState.SIGNED,
        "block_hash": "",
        "reason": "",
        "created_at": at,
        "changed_at": at,
    }


def leg_rows(
    signed: SignedTransaction, payments: Sequence[tuple[str, str]], *, chain: str, is_void: bool = False
) -> list[dict[str, Any]]:
    """Return the columns of the legs of a newly signed transaction; of each payment its id and its agent's."""
    share = (signed.most_cost / max(1, len(payments))).quantize(_SMALLEST_SHARE, ROUND_CEILING).normalize()
    return [
        {
            "payment_id": payment_id,
            "tx": signed.tx,
            "agent_id": agent_id,
            "chain": chain,
            "is_void": is_void,
            "is_live": True,
            "most_cost": share if len(payments) > 1 else signed.most_cost,
        }
        for payment_id, agent_id in payments
    ]


def create_settlement(
    signed: SignedTransaction,
    relayer: Relayer,
    *,
    nonce: int | None = None,
    payments: Sequence[Payment] = (),
    is_void: bool = False,
) -> Settlement:
    """Record a signed transaction with its legs, so that it is broadcast. Without any it only uses up its nonce."""
    row = settlement_row(
        signed,
        utc_now(),
        chain=relayer.chain,
        relayer_id=relayer.pk,
        nonce=nonce,
        first_payment_id=payments[0].pk if payments else None,
        is_void=is_void,
    )
    legs = leg_rows(signed, [(one.pk, one.agent_id) for one in payments], chain=relayer.chain, is_void=is_void)
    count = partial(SETTLEMENT_CHANGES.add, alias_of(relayer.chain), SettlementState.SIGNED)
    transaction.on_commit(count, robust=True)
    settlement = Settlement.objects.create(first_payment_id=row.pop("payment_id"), **row)
    Leg.objects.bulk_create(Leg(settlement_id=leg.pop("tx"), **leg) for leg in legs)
    return settlement

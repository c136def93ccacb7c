"""Make the row of a newly signed transaction, for all kinds of transactions."""

from collections.abc import Mapping, Sequence
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
_NONE: Mapping[str, str] = {}


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
    left_out: Mapping[str, str] = _NONE,
) -> Settlement:
    """Record a signed transaction with its legs, so that it is broadcast. Without any it only uses up its nonce.

    `left_out`: by the ids of those of the payments that it goes on without, why: another transaction has them.
    """
    first = payments[0].pk if payments else None
    of_chain: dict[str, Any] = {"chain": relayer.chain, "is_void": is_void}
    row = settlement_row(signed, utc_now(), relayer_id=relayer.pk, nonce=nonce, first_payment_id=first, **of_chain)
    transaction.on_commit(partial(SETTLEMENT_CHANGES.add, alias_of(relayer.chain), SettlementState.SIGNED), robust=True)
    settlement = Settlement.objects.create(first_payment_id=row.pop("payment_id"), **row)
    legs = leg_rows(signed, [(one.pk, one.agent_id) for one in payments], **of_chain)
    for leg in legs:
        why = left_out.get(leg["payment_id"])
        leg |= {"settlement_id": leg.pop("tx"), "skipped": why, "is_live": why is None}
    Leg.objects.bulk_create(Leg(**leg) for leg in legs)
    return settlement

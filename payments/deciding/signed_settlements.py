"""Make the row of a newly signed transaction, for all kinds of transactions."""

from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction

from chains.catalogue import alias_of
from chains.port import SignedTransaction
from foundation.kernel.counters import SETTLEMENT_CHANGES
from foundation.kernel.times import utc_now
from payments.lifecycle import SettlementState
from payments.models import Payment, Relayer, Settlement


def settlement_row(
    signed: SignedTransaction,
    at: datetime,
    *,
    chain: str,
    relayer_id: int,
    nonce: int | None,
    payment_id: str | None = None,
    agent_id: str | None = None,
    is_void: bool = False,
) -> dict[str, Any]:
    """Return the columns of a settlement that is not broadcast yet. Without a payment it only uses up its nonce."""
    return {
        "tx": signed.tx,
        "payment_id": payment_id,
        "chain": chain,
        "relayer_id": relayer_id,
        "is_void": is_void,
        "nonce": nonce,
        "raw": signed.raw,
        "valid_until": signed.valid_until,
        "valid_until_height": signed.valid_until_height,
        "valid_from_block": signed.valid_from_block,
        "agent_id": agent_id,
        "most_cost": signed.most_cost,
        "state": SettlementState.SIGNED,
        "block_hash": "",
        "reason": "",
        "created_at": at,
        "changed_at": at,
    }


def create_settlement(
    signed: SignedTransaction,
    relayer: Relayer,
    *,
    nonce: int | None = None,
    payment: Payment | None = None,
    is_void: bool = False,
) -> Settlement:
    """Record a signed transaction, so that it is broadcast. Without a payment it only uses up its nonce."""
    row = settlement_row(
        signed,
        utc_now(),
        chain=relayer.chain,
        relayer_id=relayer.pk,
        nonce=nonce,
        payment_id=None if payment is None else payment.pk,
        agent_id=None if payment is None else payment.agent_id,
        is_void=is_void,
    )
    count = partial(SETTLEMENT_CHANGES.add, alias_of(relayer.chain), SettlementState.SIGNED)
    transaction.on_commit(count, robust=True)
    return Settlement.objects.create(**row)

"""Record the decisions of a batch, in one round trip: all of them or none. The function is `sql/record.sql`."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import IntegrityError
from psycopg.errors import UniqueViolation

from chains.port import SignedAuthorization
from foundation.kernel.errors import PolicySignerUnavailable
from foundation.prepared_statements import fetch_prepared
from ledger.models import LogEntry
from payments.deciding.approval_events import write_approval_events
from payments.deciding.hold_rows import record_holds
from payments.deciding.payment_events import payment_event
from payments.deciding.requests import Carrier, Prepared
from payments.deciding.running import Decided
from payments.deciding.signed_settlements import leg_rows, settlement_row
from payments.lifecycle import PaymentStatus

_ONE_PER_NONCE = "settlement_one_live_per_nonce"
_RECORD = "SELECT payments_record_batch(%s::json, %s::json, %s::json, %s::json, %s::json, %s::json, %s::json)"
_COUNT_ABOVE = "SELECT ledger_count_above(%s::json)"
_ENTRY_COLUMNS = tuple(field.attname for field in LogEntry._meta.concrete_fields)


def record(decided: Sequence[Decided], carriers: Sequence[Carrier]) -> None:
    """Write the entries of a batch, for each approval the payment, its movement and its event, and their transactions.

    What agents above the payers count takes one more round trip. What is held for a person's approval, and what was,
    takes more: the agent's owner is told as well.

    Raises:
        PolicySignerUnavailable: a nonce is taken. The database transaction is broken, so nothing is logged.
    """
    approved = [(one, one.judged.prepared) for one in decided if one.judged.prepared is not None]
    at = {prepared.payment_id: one.entry.created_at for one, prepared in approved}
    agent_of = {prepared.payment_id: one.entry.agent_id for one, prepared in approved}
    tables = (
        [_entry_row(one.entry) for one in decided],
        _agent_rows(decided),
        [_payment_row(one, prepared) for one, prepared in approved],
        [_settlement_row(carrier, at[carrier.payments[0].payment_id]) for carrier in carriers],
        [leg for carrier in carriers for leg in _leg_rows(carrier, agent_of)],
        [_movement_row(one, prepared) for one, prepared in approved],
        [_event_row(one.entry, prepared) for one, prepared in approved if prepared.payee.webhook_url is not None],
    )
    try:
        fetch_prepared(_RECORD, [_JSON.encode(rows) if rows else None for rows in tables])
    except IntegrityError as error:
        cause = error.__cause__
        if isinstance(cause, UniqueViolation) and cause.diag.constraint_name == _ONE_PER_NONCE:
            # The relayer's next nonce was set back: the watcher repairs that.
            raise PolicySignerUnavailable from error
        raise
    _count_above(approved)
    record_holds(decided)
    write_approval_events(decided)


def _count_above(approved: Sequence[tuple[Decided, Prepared]]) -> None:
    """Count what is approved at the agents above its payers."""
    rows = [
        {
            "level_id": level.agent.id,
            "payment_id": prepared.payment_id,
            "payee": one.entry.service,
            "at": one.entry.created_at,
            "amount": one.judged.paid,
        }
        for one, prepared in approved
        for level in one.judged.known.levels
    ]
    if rows:
        fetch_prepared(_COUNT_ABOVE, [_JSON.encode(rows)])


def _entry_row(entry: LogEntry) -> dict[str, Any]:
    return {column: value for column in _ENTRY_COLUMNS if (value := getattr(entry, column)) is not None}


def _agent_rows(decided: Sequence[Decided]) -> list[dict[str, Any]]:
    """Return what each agent has after its last decision of the batch."""
    last = {one.entry.agent_id: one for one in decided}
    paid = dict.fromkeys(last, Decimal(0))
    for one in decided:
        paid[one.entry.agent_id] += one.judged.paid
    return [
        {
            "id": agent_id,
            "last_entry_id": one.entry.id,
            "last_entry_hash": one.entry.hash,
            "last_entry_at": one.entry.created_at,
            "spent_total": one.entry.spent_total,
            "paid": paid[agent_id],
            "counts_payments": one.judged.known.policy.counts_payments,
        }
        for agent_id, one in last.items()
    ]


def _payment_row(decided: Decided, prepared: Prepared) -> dict[str, Any]:
    entry = decided.entry
    return {
        "id": entry.payment_id,
        "agent_id": entry.agent_id,
        "entry_id": entry.id,
        "service_id": entry.service,
        "asset": entry.asset,
        "amount": decided.judged.paid,
        "chain": prepared.payee.chain,
        "recipient": prepared.payee.address,
        "escrow_id": prepared.escrow_id,
        "status": PaymentStatus.APPROVED,
        **_moments(decided),
        "failure_reason": "",
        **_authorization_columns(prepared.authorization),
    }


def _moments(decided: Decided) -> dict[str, datetime]:
    held, at = decided.judged.request.held, decided.entry.created_at
    return {"created_at": at} if held is None else {"created_at": held.asked_at, "approved_at": at}


def _authorization_columns(authorization: SignedAuthorization | None) -> dict[str, Any]:
    if authorization is None:
        return {}
    return {
        "authorizer": authorization.by.escrow,
        "authorized_token": authorization.by.token,
        "authorized_until": authorization.valid_until,
    }


def _settlement_row(carrier: Carrier, at: datetime) -> dict[str, Any]:
    return settlement_row(
        carrier.signed,
        at,
        chain=carrier.chain,
        relayer_id=carrier.relayer.id,
        nonce=carrier.nonce,
        first_payment_id=carrier.payments[0].payment_id,
    )


def _leg_rows(carrier: Carrier, agent_of: Mapping[str, str]) -> list[dict[str, Any]]:
    carried = [(one.payment_id, agent_of[one.payment_id]) for one in carrier.payments]
    return leg_rows(carrier.signed, carried, chain=carrier.chain)


def _movement_row(decided: Decided, prepared: Prepared) -> dict[str, Any]:
    return {
        "agent_id": decided.entry.agent_id,
        "amount": -decided.judged.paid,
        "balance_after": decided.judged.balance_after,
        "payment_id": prepared.payment_id,
        "created_at": decided.entry.created_at,
    }


def _event_row(entry: LogEntry, prepared: Prepared) -> dict[str, Any]:
    recipient, at, escrow_id = prepared.payee.recipient, entry.created_at, prepared.escrow_id
    event = payment_event(PaymentStatus.APPROVED, entry, recipient, entry.tx, at, escrow_id=escrow_id)
    return {
        "id": event["id"],
        "service_id": entry.service,
        "type": event["type"],
        "payload": json.dumps(event, ensure_ascii=False),
        "created_at": entry.created_at,
    }


def _to_json(value: Any) -> str:
    """Convert a value of a column to the JSON that PostgreSQL reads."""
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"A column holds no {type(value).__name__}.")


_JSON = json.JSONEncoder(default=_to_json)

"""The database's part of the money path: two SQL functions, one round trip each.

The functions are `sql/lock_and_read.sql` and `sql/record.sql`; `migrate` installs them. All other code
uses the ORM; here it would take more time than all the rest, under the agent's lock.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import IntegrityError, OperationalError
from psycopg.errors import LockNotAvailable, UniqueViolation

from allowance.database import fetch_prepared
from allowance.kernel.errors import AgentNotFound, PolicySignerUnavailable
from chains.port import SignedTransaction
from ledger.models import LogEntry
from ledger.receipts import request_digest
from payments.deciding.locked import Locked, PayeeRecord, RelayerRecord, locked_columns, make_locked
from payments.deciding.payment_events import payment_event
from payments.deciding.requests import PaymentRequest
from payments.deciding.signed_settlements import settlement_row
from payments.lifecycle import PaymentStatus

_COLUMNS = ", ".join(["earlier_entry_id", *locked_columns()])
_LOCK_AND_READ = f"SELECT {_COLUMNS} FROM payments_lock_and_read_5(%s, %s, %s, %s, %s, %s)"  # noqa: S608 - our own names
_GAS_SINCE = "SELECT payments_gas_since(%s, %s, %s)"
_ONE_PER_NONCE = "settlement_one_live_per_nonce"
_RECORD = "SELECT payments_record(%s::json, %s::json, %s::json, %s::json)"


@dataclass(frozen=True, slots=True)
class EarlierDecision:
    """An earlier decision for the same idempotency key: its log entry."""

    entry_id: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A payment that is ready to be recorded: its ids, here and on its chain, and its signed transaction."""

    payment_id: str
    escrow_id: str
    signed: SignedTransaction
    payee: PayeeRecord
    relayer: RelayerRecord


def lock_and_read(request: PaymentRequest, now: datetime | None, most_refusals: int) -> Locked | EarlierDecision:
    """Lock the agent's row until the transaction ends, and read the facts.

    `now` replaces the database's clock; `most_refusals` is the highest number of an agent's refusals in a minute.

    Raises:
        AgentNotFound: there is no such agent.
        PolicySignerUnavailable: the agent was busy for 5 s. Nothing was evaluated, so nothing is logged.
    """
    digest = request_digest(request.idempotency_key, request.fingerprint)
    parameters = (request.agent_id, request.idempotency_key, request.service, now, digest, most_refusals)
    try:
        row = fetch_prepared(_LOCK_AND_READ, parameters)
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise PolicySignerUnavailable from error
        raise
    if row is None:
        raise AgentNotFound
    earlier_entry_id, *columns = row
    return make_locked(columns) if earlier_entry_id is None else EarlierDecision(earlier_entry_id)


def read_gas(agent_id: str, chain: str, since: datetime) -> Decimal:
    """Sum the gas of an agent's transactions on a chain since `since`, in the chain's coin.

    Costs count for 24 hours, with the whole hour of `since`. A transaction without a known cost counts with its highest
    possible cost.
    """
    row = fetch_prepared(_GAS_SINCE, (agent_id, chain, since))
    return Decimal(0) if row is None else row[0]


def record(entry: LogEntry, request: PaymentRequest, prepared: Prepared | None) -> None:
    """Write the entry and, with a prepared transaction, the payment, its settlement and its event.

    Raises:
        PolicySignerUnavailable: the nonce is taken. The database transaction is broken, so nothing is logged.
    """
    rows: list[dict[str, Any] | None] = [_entry_row(entry), None, None, None]
    if prepared is not None:
        rows[1:] = [_payment_row(entry, request, prepared), _settlement_row(entry, prepared), None]
        if prepared.payee.webhook_url is not None:
            rows[3] = _event_row(entry, prepared.payee)
    try:
        fetch_prepared(_RECORD, [None if row is None else _JSON.encode(row) for row in rows])
    except IntegrityError as error:
        cause = error.__cause__
        if isinstance(cause, UniqueViolation) and cause.diag.constraint_name == _ONE_PER_NONCE:
            # The relayer's next nonce was set back: the watcher repairs that.
            raise PolicySignerUnavailable from error
        raise


def _entry_row(entry: LogEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "agent_id": entry.agent_id,
        "service": entry.service,
        "amount": entry.amount,
        "asset": entry.asset,
        "result": entry.result,
        "rule": entry.rule,
        "created_at": entry.created_at,
        "reason": entry.reason,
        "metadata_json": entry.metadata_json,
        "policy_revision": entry.policy_revision,
        "payment_id": entry.payment_id,
        "tx": entry.tx,
        "explanation_json": entry.explanation_json,
        "hash": entry.hash,
        "previous_hash": entry.previous_hash,
        "signature": entry.signature,
        "key_id": entry.key_id,
        "idempotency_key": entry.idempotency_key,
        "fingerprint": entry.fingerprint,
        "spent_total": entry.spent_total,
        "clock_repairs": entry.clock_repairs,
        "refused_request": entry.refused_request,
    }


def _payment_row(entry: LogEntry, request: PaymentRequest, prepared: Prepared) -> dict[str, Any]:
    return {
        "id": entry.payment_id,
        "agent_id": entry.agent_id,
        "entry_id": entry.id,
        "service_id": entry.service,
        "asset": entry.asset,
        "amount": request.amount,
        "chain": prepared.payee.chain,
        "recipient": prepared.payee.address,
        "escrow_id": prepared.escrow_id,
        "status": PaymentStatus.APPROVED,
        "created_at": entry.created_at,
        "failure_reason": "",
    }


def _settlement_row(entry: LogEntry, prepared: Prepared) -> dict[str, Any]:
    return settlement_row(
        prepared.signed,
        entry.created_at,
        chain=prepared.payee.chain,
        relayer_id=prepared.relayer.id,
        nonce=prepared.relayer.next_nonce,
        payment_id=entry.payment_id,
        agent_id=entry.agent_id,
    )


def _event_row(entry: LogEntry, payee: PayeeRecord) -> dict[str, Any]:
    event = payment_event(PaymentStatus.APPROVED, entry, payee.recipient, entry.tx, entry.created_at)
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

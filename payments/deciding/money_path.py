"""The database's part of the money path: two SQL functions, one round trip each.

The functions are `sql/lock_and_read.sql` and `sql/record.sql`; a migration installs them. Everything else in this
code base goes through the ORM; here it would cost more time than all the rest, under the agent's lock.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import IntegrityError, OperationalError
from psycopg.errors import LockNotAvailable, UniqueViolation

from allowance.database import fetch_prepared
from allowance.kernel.errors import PolicySignerUnavailable
from chains.port import SignedTransaction
from ledger.models import LogEntry
from ledger.receipts import request_digest
from payments.deciding.payment_events import payment_event
from payments.deciding.requests import PaymentRequest
from payments.lifecycle import PaymentStatus, SettlementState

_LOCK_AND_READ = "SELECT * FROM payments_lock_and_read_4(%s, %s, %s, %s, %s, %s)"
_GAS_SINCE = "SELECT payments_gas_since(%s, %s, %s)"
_ONE_PER_NONCE = "settlement_one_live_per_nonce"
_RECORD = "SELECT payments_record(%s::json, %s::json, %s::json, %s::json)"


@dataclass(frozen=True, slots=True)
class Locked:
    """All that a decision depends on, read under the agent's lock. In the order of the SQL function.

    For a known idempotency key only `earlier_entry_id` is set. A payee, relayer or chain state that was not found
    leaves its fields None; amounts are in units of the agent's asset. `clock_at` is the database's clock, `decided_at`
    never before `last_entry_at`. `refused_entry_id` is the newest 503 for the same request; `refusing_since` is set
    where the last minute has as many refusals as it may. `relayer_in_need`: one that lacks the gas money for another
    payment, if all do.
    """

    decided_at: datetime
    earlier_entry_id: str | None
    agent_status: str
    agent_asset: str
    balance: Decimal
    spent_total: Decimal
    last_entry_id: str
    last_entry_hash: str
    policy_revision: int
    max_per_payment: Decimal
    daily_limit: Decimal
    weekly_limit: Decimal
    allowed_services: list[str] | None
    spent_today: Decimal
    spent_this_week: Decimal
    is_signing: bool
    payee_status: str | None
    payee_asset: str | None
    payee_is_as_approved: bool | None
    payee_has_webhook: bool | None
    chain: str | None
    recipient: str | None
    relayer_id: int | None
    relayer_number: int | None
    relayer_address: str | None
    nonce: int | None
    chain_state: str | None
    chain_trouble: str | None
    chain_observed_at: datetime | None
    payee_state: str | None
    payee_observed_at: datetime | None
    key_hash: bytes | None
    is_key_used: bool | None
    # Clocks, and refusals that were told lately.
    clock_at: datetime
    last_entry_at: datetime | None
    clock_repairs: int | None
    refused_entry_id: str | None
    refusing_since: datetime | None
    # Gas money.
    relayer_in_need: str | None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A payment that is ready to be recorded: what its chain knows it by, and its signed transaction."""

    escrow_id: str
    signed: SignedTransaction


def lock_and_read(request: PaymentRequest, now: datetime | None, most_refusals: int) -> Locked | None:
    """Lock the agent's row until the transaction ends and read the facts; None: no such agent.

    `now` replaces the database's clock; an agent may have `most_refusals` in a minute.

    Raises:
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
    return None if row is None else Locked(*row)


def read_gas(agent_id: str, chain: str, since: datetime) -> Decimal:
    """Sum what an agent's transactions on a chain have cost in a day, and what those under way can, in its coin.

    The day begins at `since`, whose hour counts as a whole.
    """
    row = fetch_prepared(_GAS_SINCE, (agent_id, chain, since))
    return Decimal(0) if row is None else row[0]


def record(entry: LogEntry, request: PaymentRequest, locked: Locked, prepared: Prepared | None) -> None:
    """Write the entry and, with a prepared transaction, all that makes it a payment.

    Raises:
        PolicySignerUnavailable: the nonce is taken. The transaction is broken, so nothing is logged.
    """
    rows: tuple[Any, ...] = (_entry_row(entry), None, None, None)
    if prepared is not None:
        rows = (
            rows[0],
            _payment_row(entry, request, locked, prepared.escrow_id),
            _settlement_row(entry, locked, prepared.signed),
            _event_row(entry, locked) if locked.payee_has_webhook else None,
        )
    texts = [None if row is None else json.dumps(row) for row in rows]
    try:
        fetch_prepared(_RECORD, texts)
    except IntegrityError as error:
        cause = error.__cause__
        if isinstance(cause, UniqueViolation) and cause.diag.constraint_name == _ONE_PER_NONCE:
            # Somebody set the relayer's next nonce back: the watcher heals that.
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
        "created_at": entry.created_at.isoformat(),
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
        "fingerprint": None if entry.fingerprint is None else _bytea(bytes(entry.fingerprint)),
        "spent_total": str(entry.spent_total),
        "clock_repairs": entry.clock_repairs,
        "refused_request": entry.refused_request,
    }


def _payment_row(entry: LogEntry, request: PaymentRequest, locked: Locked, escrow_id: str) -> dict[str, Any]:
    return {
        "id": entry.payment_id,
        "agent_id": entry.agent_id,
        "entry_id": entry.id,
        "service_id": entry.service,
        "asset": entry.asset,
        "amount": str(request.amount),
        "chain": locked.chain,
        "recipient": locked.recipient,
        "escrow_id": escrow_id,
        "status": PaymentStatus.APPROVED,
        "created_at": entry.created_at.isoformat(),
        "failure_reason": "",
    }


def _settlement_row(entry: LogEntry, locked: Locked, signed: SignedTransaction) -> dict[str, Any]:
    return {
        "tx": signed.tx,
        "payment_id": entry.payment_id,
        "chain": locked.chain,
        "relayer_id": locked.relayer_id,
        "is_void": False,
        "nonce": locked.nonce,
        "raw": _bytea(signed.raw),
        "valid_until": signed.valid_until and signed.valid_until.isoformat(),
        "valid_until_height": signed.valid_until_height,
        "valid_from_block": signed.valid_from_block,
        "agent_id": entry.agent_id,
        "most_cost": str(signed.most_cost),
        "state": SettlementState.SIGNED,
        "block_hash": "",
        "reason": "",
        "created_at": entry.created_at.isoformat(),
        "changed_at": entry.created_at.isoformat(),
    }


def _event_row(entry: LogEntry, locked: Locked) -> dict[str, Any]:
    event = payment_event(
        PaymentStatus.APPROVED, entry, f"{locked.chain}:{locked.recipient}", entry.tx, entry.created_at
    )
    return {
        "id": event["id"],
        "service_id": entry.service,
        "type": event["type"],
        "payload": json.dumps(event, ensure_ascii=False),
        "created_at": entry.created_at.isoformat(),
    }


def _bytea(data: bytes) -> str:
    return "\\x" + data.hex()

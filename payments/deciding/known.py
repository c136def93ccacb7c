"""The facts of a payment as the database returns them under the agent's lock: one small record for each row.

The fields have the names of the tables' columns, and the SQL statement is made from them: to read another column of a
row, add a field here. Computed values are columns of the SQL function; see `sql/lock_and_read.sql`.
`tests/payments/deciding/test_money_path.py` compares both with the database's catalogue.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import Any, get_args, get_type_hints


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """The agent, locked. Amounts are in units of its asset."""

    status: str
    asset: str
    balance: Decimal
    spent_total: Decimal
    policy_revision: int
    last_entry_id: str
    last_entry_hash: str
    last_entry_at: datetime | None


@dataclass(frozen=True, slots=True)
class PolicyRecord:
    """The agent's policy revision in force. Amounts are in units of the agent's asset."""

    max_per_payment: Decimal
    daily_limit: Decimal
    weekly_limit: Decimal
    allowed_services: list[str] | None


@dataclass(frozen=True, slots=True)
class PayeeRecord:
    """The payee; `approved_recipient` and `recipient` are CAIP-10."""

    status: str
    asset: str
    chain: str
    address: str
    approved_recipient: str
    webhook_url: str | None

    @property
    def recipient(self) -> str:
        """The recipient that is registered now."""
        return f"{self.chain}:{self.address}"

    @property
    def is_approved(self) -> bool:
        """Whether the payee is approved with its present recipient."""
        return self.status == "approved" and self.approved_recipient == self.recipient


@dataclass(frozen=True, slots=True)
class PayeeStateRecord:
    """The last observed state of the payee's account, as JSON."""

    observed_at: datetime
    state: str


@dataclass(frozen=True, slots=True)
class RelayerRecord:
    """The chosen relayer, locked if it has nonces; `next_nonce` is the one to use."""

    id: int
    number: int
    address: str
    next_nonce: int | None


@dataclass(frozen=True, slots=True)
class ChainRecord:
    """The last observed state of the payee's chain, as JSON, and the reasons not to sign on it: "" if there is none."""

    observed_at: datetime
    state: str
    mismatch: str
    stopped_reason: str


@dataclass(frozen=True, slots=True)
class Locked:
    """All facts that a decision depends on, read under the agent's lock. A record is None if there is no such row.

    Payee state, relayer and chain are read for an active agent and an approved payee only. `clock_at` is the database's
    clock; `decided_at` is never before the agent's last entry. `refused_entry_id` is the newest 503 for the same
    request. `refusals_at` are moments of the agent's refusals in the last minute, newest first, from the
    (highest allowed number - size of the batch)th on. `relayer_in_need`: if no relayer has the gas money for another
    payment, the address of one of them. `relayer_room`: how many payments the relayer can take. `key_hash` is the
    idempotency key's id in the escrow; `is_key_used`: the escrow has used this id without us.
    """

    decided_at: datetime
    clock_at: datetime
    clock_repairs: int | None
    spent_today: Decimal
    spent_this_week: Decimal
    refused_entry_id: str | None
    refusals_at: list[datetime]
    is_signing: bool
    key_hash: bytes | None
    is_key_used: bool | None
    relayer_in_need: str | None
    relayer_room: int | None
    agent: AgentRecord
    policy: PolicyRecord
    payee: PayeeRecord | None
    payee_state: PayeeStateRecord | None
    relayer: RelayerRecord | None
    chain: ChainRecord | None


def _record_of(annotation: Any) -> Any:
    """Find the record in an annotation such as `PayeeRecord | None`; None: there is no record in it."""
    return next((one for one in (annotation, *get_args(annotation)) if is_dataclass(one)), None)


# Each field of `Locked` in its order: the record that it holds, or None if it holds a plain value.
RECORDS: dict[str, Any] = {name: _record_of(annotation) for name, annotation in get_type_hints(Locked).items()}
_WIDTHS = [(record, 1 if record is None else len(fields(record))) for record in RECORDS.values()]


def locked_columns() -> list[str]:
    """List the columns that `make_locked` takes, in its order, as they are selected from the SQL function."""
    columns: list[str] = []
    for name, record in RECORDS.items():
        columns += [name] if record is None else [f"({name}).{field.name}" for field in fields(record)]
    return columns


def make_locked(row: Iterable[Any]) -> Locked:
    """Make the records from one row of `locked_columns`.

    The first column of each record is never null in its table, so null means that there is no such row.
    """
    values = iter(row)
    made: list[Any] = []
    for record, width in _WIDTHS:
        if record is None:
            made.append(next(values))
        else:
            columns = tuple(islice(values, width))
            made.append(None if columns[0] is None else record(*columns))
    return Locked(*made)

"""What is known of a payment when it is decided, as the database returns it: one small record for each row.

The fields have the names of the tables' columns: to read another column of a row, add a field to its record. Computed
values are columns of the SQL function, see `sql/lock_and_read.sql`. `tests/payments/deciding/test_money_path.py`
compares both with the database's catalogue.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import Any

from foundation.kernel.errors import OperationRefused, PolicySignerUnavailable
from payments.deciding.counted import CountedRecord, HeldRecord, PayeeCountedRecord
from policy.more_limits import MoreLimits, read_more


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """The agent. Amounts are in units of its asset; `ancestors`: all agents above it, root first."""

    id: str
    status: str
    asset: str
    balance: Decimal
    spent_total: Decimal
    policy_revision: int
    last_entry_id: str
    last_entry_hash: str
    last_entry_at: datetime | None
    ancestors: list[str] | None


@dataclass(frozen=True, slots=True)
class PolicyRecord:
    """The agent's policy revision in force. Amounts are in units of the agent's asset."""

    max_per_payment: Decimal
    daily_limit: Decimal
    weekly_limit: Decimal
    allowed_services: list[str] | None
    more_json: str | None
    counts_payments: bool

    @property
    def more(self) -> MoreLimits:
        """Read the optional limits.

        Raises:
            PolicySignerUnavailable: only a later release knows one.
        """
        try:
            return read_more(self.more_json)
        except OperationRefused as error:
            raise PolicySignerUnavailable("The agent's policy has limits that this process does not know.") from error


@dataclass(frozen=True, slots=True)
class PayeeRecord:
    """The payee; `approved_recipient` and `recipient` are CAIP-10."""

    status: str
    asset: str
    chain: str
    address: str
    approved_recipient: str
    webhook_url: str | None
    decided_at: datetime | None
    tags: list[str]

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
    """The chosen relayer; `next_nonce` is the one to use."""

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
class Known:
    """All facts that a decision depends on: read under the agent's lock, or without it for an evaluation.

    A record is None if there is no such row.

    Payee state, relayer and chain are read for an active agent and an approved payee only. `clock_at` is the database's
    clock; `decided_at` is never before the agent's last entry. `refused_entry_id` is the newest 503 for the same
    request. `refusing_since`: since when the agent has had the highest allowed number of refusals in a minute; first
    as it is, then if one more of its requests in the batch was refused, two, and so on. `relayer_in_need`: if no
    relayer has the gas money for another payment, the address of one of them. `relayer_room`: how many payments the
    relayer can take. `counted`, `payee_counted`: what optional limits compare, as the functions `ledger_counted_by` and
    `ledger_tallied` return it; None: there are none, or nothing counts payments. `held`: what waits for a
    person's approval apart from this payment; it is in none of the other figures. None: nothing. `key_hash` is the
    idempotency key's id in the escrow; `is_key_used`: the escrow has used this id without us. `levels`: the same of all
    agents above it, the parent first, without payee, relayer and chain. What an agent has spent, and what it has held,
    is with that of all below it; its balance is not.
    """

    decided_at: datetime
    clock_at: datetime
    clock_repairs: int | None
    spent_today: Decimal
    spent_this_week: Decimal
    counted: CountedRecord | None
    payee_counted: PayeeCountedRecord | None
    held: HeldRecord | None
    refused_entry_id: str | None
    refusing_since: list[datetime | None]
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
    levels: "tuple[Known, ...]" = ()

    @property
    def root(self) -> str:
        """The agent at the top: itself, if there is none above it."""
        return self.agent.ancestors[0] if self.agent.ancestors else self.agent.id


# What the SQL function returns, in the order of `make_known`: values, and rows of tables with their records.
VALUES = (
    "decided_at", "clock_at", "clock_repairs", "spent_today", "spent_this_week", "counted", "payee_counted",
    "held", "refused_entry_id", "refusing_since", "is_signing", "key_hash", "is_key_used", "relayer_in_need",
    "relayer_room",
)  # fmt: skip
RECORDS: dict[str, type[Any]] = {
    "agent": AgentRecord,
    "policy": PolicyRecord,
    "payee": PayeeRecord,
    "payee_state": PayeeStateRecord,
    "relayer": RelayerRecord,
    "chain": ChainRecord,
}
_COUNTED: dict[str, type[Any]] = {"counted": CountedRecord, "payee_counted": PayeeCountedRecord, "held": HeldRecord}
_FIELDS = {name: [one.name for one in fields(record)] for name, record in RECORDS.items()}
COLUMNS = (*VALUES, *(f"({name}).{field}" for name, names in _FIELDS.items() for field in names))


def make_known(row: Iterable[Any]) -> Known:
    """Make the records from one row of `COLUMNS`.

    The first column of each record is never null in its table, so null means that there is no such row.
    """
    columns = iter(row)
    made = [
        value if value is None or name not in _COUNTED else _COUNTED[name](*value)
        for name, value in zip(VALUES, islice(columns, len(VALUES)), strict=True)
    ]
    for name, record in RECORDS.items():
        first, *others = islice(columns, len(_FIELDS[name]))
        made.append(None if first is None else record(first, *others))
    return Known(*made)

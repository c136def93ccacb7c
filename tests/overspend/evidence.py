"""What is known of a scenario when it is over: what agents may, what clients were told, and the rows as they are."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import cached_property

from tests.overspend.answers import Told

NOTHING = Decimal(0)


class Kind(StrEnum):
    """What can be wrong. `UNFIT`: the scenario does not show what it is there to show."""

    OVERSPENT = "overspent"
    DOUBLED = "doubled"
    LOST = "lost"
    UNFIT = "unfit"


Problem = tuple[Kind, str]


@dataclass(frozen=True, slots=True)
class Limits:
    """What an agent may spend by what is decided later than `since`; None: from its beginning."""

    payment: Decimal
    day: Decimal
    week: Decimal
    since: datetime | None = None


@dataclass(slots=True)
class Account:
    """An agent as its owner sees it.

    `wanted`: exactly so much is to be approved in the end. Nothing that is sent after `closed_at` (monotonic) may pass.
    Not all that a flooder asks for has to be decided. A person has to approve what is above `asks_above`.
    What one spends that `is_within_others` is in the windows of those.
    """

    agent: str
    asset: str
    limits: list[Limits]
    wanted: Decimal | None = None
    closed_at: float | None = None
    is_flooder: bool = False
    asks_above: Decimal | None = None
    is_within_others: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the log. `held_by` is the row that has held what this one ends, `levels` who was above its agent."""

    id: str
    agent: str
    key: str | None
    service: str
    amount: Decimal
    asset: str
    is_approved: bool
    created_at: datetime
    payment_id: str | None
    is_held: bool = False
    held_by: str | None = None
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Paid:
    """A row of the payments, with how many transactions can still pay it or did."""

    id: str
    agent: str
    entry_id: str
    amount: Decimal
    created_at: datetime
    transactions: int


@dataclass(frozen=True, slots=True)
class Counted:
    """A row of what an agent, `level`, has counted of those below it."""

    level: str
    payment_id: str
    amount: Decimal
    created_at: datetime


@dataclass(frozen=True)
class Evidence:
    """All of one scenario.

    `arrived`: what each service got, as the chain itself says, by service and asset. `seen`: what only the scenario
    could see to be wrong.
    """

    accounts: Sequence[Account]
    told: Sequence[Told]
    entries: Sequence[Entry]
    payments: Sequence[Paid]
    arrived: Mapping[tuple[str, str], Decimal] = field(default_factory=dict)
    seen: Sequence[Problem] = ()
    counted: Sequence[Counted] = ()

    @cached_property
    def approvals(self) -> dict[str, Told]:
        """What clients were told of payments: each payment once, whoever was told of it how often."""
        return {told.payment_id: told for told in self.told if told.is_approved}

    @cached_property
    def levels(self) -> dict[str | None, tuple[str, ...]]:
        """Who was above its payer when a payment was approved, as the log has signed it."""
        return {entry.payment_id: entry.levels for entry in self.entries if entry.is_approved}

    @cached_property
    def by_id(self) -> dict[str, Entry]:
        return {entry.id: entry for entry in self.entries}

    @cached_property
    def by_key(self) -> dict[tuple[str, str], list[Entry]]:
        """The entries of each idempotency key of an agent; what was held ends by the key that it began with."""
        found = defaultdict(list)
        for entry in self.entries:
            begun = entry if entry.held_by is None else self.by_id.get(entry.held_by, entry)
            if begun.key is not None:
                found[entry.agent, begun.key].append(entry)
        return found

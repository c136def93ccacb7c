"""What an agent did, as `ledger.replay` judges it anew."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple


class Past(NamedTuple):
    """A decision as the log has it. `is_off_list`: refused because the policy did not allow the service.

    `repairs` counts the clock repairs before it. `is_judged`: it is within the time that is judged anew.
    """

    at: datetime
    id: str
    service: str
    amount: Decimal
    asset: str
    rule: str
    is_approved: bool
    is_off_list: bool
    payment_id: str | None
    repairs: int
    is_judged: bool


class Move(NamedTuple):
    """A movement of the balance that is no payment; one with `spent_at` gives the payment back."""

    at: datetime
    amount: Decimal
    spent_at: datetime | None
    payment_id: str | None


class Repair(NamedTuple):
    """A clock repair; entries dated after `repaired_at` count until `head_at` has left the window."""

    number: int
    repaired_at: datetime
    head_at: datetime


class Payee(NamedTuple):
    """A payee as it is now: its asset, and the least that is paid to it."""

    asset: str
    minimum: Decimal | None


@dataclass(frozen=True, slots=True)
class History:
    """What an agent did: decisions in the order of its hash chain, the other movements by time.

    `balance` is the balance before all of it.
    """

    asset: str
    balance: Decimal
    decisions: Sequence[Past]
    moves: Sequence[Move] = ()
    repairs: Sequence[Repair] = ()
    payees: Mapping[str, Payee] = field(default_factory=dict)

"""What the model of an agent remembers of each payment."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from ledger.models import HoldAnswer
from payments.deciding.requests import PaymentRequest
from policy.limits import Limits


@dataclass
class Bought:
    """An approved payment as the model remembers it, with the limits that were in force for it."""

    at: datetime
    amount: Decimal
    limits: Limits
    payment_id: str
    has_failed: bool = False
    is_over: bool = False
    is_in_block: bool = False
    is_lost: bool = False


@dataclass
class Decided:
    request: PaymentRequest
    rule: str
    entry_id: str


@dataclass
class Waiting:
    """A payment that waits for a person's approval; `answer`: what they have said, None: nothing so far."""

    decided: Decided
    payment_id: str
    expires_at: datetime
    answer: HoldAnswer | None = None

    @property
    def amount(self) -> Decimal:
        return self.decided.request.amount


@dataclass(frozen=True)
class Expected:
    """What a decision must be."""

    result: str
    rule: str

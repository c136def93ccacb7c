"""Read how payments fare that wait, or waited, for a person's approval."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter

from django.db.models import F, Q, QuerySet

from foundation.database import brief_read
from foundation.groups import find_in_groups, read_of
from ledger.models import Hold, HoldAnswer, LogEntry, Result
from payments.lifecycle import HeldStatus, end_of_hold
from payments.payment_states import PaymentFilters, is_payment_id

# A worker decides what was answered within a second. What it could not decide for so long is told to people.
DECIDED_WITHIN = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class HeldState:
    """A payment that waits for a person's approval, or was refused after that; `end` is the decision of then."""

    hold: Hold
    entry: LogEntry
    end: LogEntry | None

    @property
    def id(self) -> str:
        return self.hold.id

    @property
    def status(self) -> HeldStatus:
        if self.end is None:
            return HeldStatus.PENDING_APPROVAL
        return end_of_hold(self.end.created_at, self.hold.expires_at, is_answered=bool(self.hold.answer))

    @property
    def ended_at(self) -> datetime | None:
        return None if self.end is None else self.end.created_at


# What is not a payment, or not yet. One that was approved is a payment like any other.
_UNAPPROVED = ~Q(final_entry__result=Result.APPROVED)


def is_stuck(hold: Hold, now: datetime) -> bool:
    """Tell whether somebody has answered a payment, and no worker could decide it since."""
    return hold.ended_at is None and hold.answered_at is not None and hold.answered_at <= now - DECIDED_WITHIN


def find_unsigned(now: datetime) -> QuerySet[Hold]:
    """Find what was approved and could not be signed since: a stopped chain, for example, keeps it."""
    return Hold.objects.filter(ended_at=None, answer=HoldAnswer.APPROVE, answered_at__lte=now - DECIDED_WITHIN)


def has_ended(payment_id: str) -> bool:
    """Tell whether a payment waits for nobody's approval any more."""
    return not Hold.objects.filter(pk=payment_id, ended_at=None).exists()


def find_held(payment_id: str) -> HeldState | None:
    """Find a payment that waits for approval, or was refused after that."""
    if not is_payment_id(payment_id):
        return None

    def find() -> Hold | None:
        with brief_read():
            return _read(Hold.objects.filter(Q(ended_at=None) | _UNAPPROVED, pk=payment_id)).first()

    hold = find_in_groups(find)
    return None if hold is None else _state(hold)


def read_held_page(filters: PaymentFilters, *, before_id: str | None, size: int) -> list[HeldState]:
    """Read up to `size` of them that fit, newest first, older than the payment `before_id`."""
    wanted = {
        "agent_id": filters.agent_id,
        "service": filters.service_id,
        "amount": filters.amount,
        "created_at__gte": filters.since,
        "id__lt": before_id,
        "entry__idempotency_key": filters.idempotency_key,
    }
    holds = _read(Hold.objects.filter(_of_status(filters.status)))
    found = holds.filter(**{name: value for name, value in wanted.items() if value is not None}).order_by("-id")

    def read() -> list[HeldState]:
        with brief_read():
            return [_state(hold) for hold in found[:size]]

    return sorted(read_of(filters.agent_id, read), key=attrgetter("id"), reverse=True)[:size]


def _of_status(status: str | None) -> Q:
    is_refused = Q(ended_at__isnull=False) & _UNAPPROVED
    is_expired = Q(answer="", ended_at__gte=F("expires_at"))
    by_status: dict[str | None, Q] = {
        None: Q(ended_at=None) | is_refused,
        HeldStatus.PENDING_APPROVAL: Q(ended_at=None),
        HeldStatus.EXPIRED: is_refused & is_expired,
        HeldStatus.DECLINED: is_refused & ~is_expired,
    }
    return by_status.get(status, Q(pk__in=()))


def _read(holds: QuerySet[Hold]) -> QuerySet[Hold]:
    return holds.select_related("entry", "final_entry")


def _state(hold: Hold) -> HeldState:
    return HeldState(hold, hold.entry, hold.final_entry)

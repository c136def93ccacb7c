"""Record who changed what. Operations do so in the transaction of the change: there is none without its entry."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction

from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import format_amount
from foundation.kernel.times import format_instant, utc_now
from staff.models import AuditEntry

MAX_REASON_LENGTH = 500

# The person who confirms the change that is being made; "" if none has to.
_confirming: ContextVar[str] = ContextVar("confirming", default="")


@contextmanager
def confirmed_by(person: str) -> Iterator[None]:
    """Name a second person in all entries that are recorded inside."""
    token = _confirming.set(person)
    try:
        yield
    finally:
        _confirming.reset(token)


def is_confirmed() -> bool:
    """Tell whether a second person confirms the change that is being made."""
    return bool(_confirming.get())


def record(
    action: str,
    *,
    subject_type: str,
    subject: str,
    by: str,
    reason: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    now: datetime | None = None,
) -> AuditEntry:
    """Record one change; call it inside the transaction that makes it.

    `action` is the subject's type and a participle (`agent.paused`). `before` and `after` hold what changed, under the
    API's names; amounts and instants are written as the API does. They hold no secrets. `now` replaces the clock.

    Raises:
        OperationRefused: the reason is too long.
    """
    if len(reason) > MAX_REASON_LENGTH:
        raise OperationRefused(f"A reason has at most {MAX_REASON_LENGTH} characters.")
    with transaction.atomic():
        return AuditEntry.objects.create(
            at=now or utc_now(),
            author=by,
            confirmed_by=_confirming.get(),
            action=action,
            subject_type=subject_type,
            subject=subject,
            reason=reason,
            before=None if before is None else _plain(before),
            after=None if after is None else _plain(after),
        )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    if isinstance(value, Decimal):
        return format_amount(value)
    return format_instant(value) if isinstance(value, datetime) else value

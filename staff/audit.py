"""Record who changed what. Operations do so in the transaction of the change: there is none without its entry."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction

from allowance.kernel.times import utc_now
from staff.models import AuditEntry

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


def record(
    action: str,
    *,
    subject_type: str,
    subject: str,
    by: str,
    reason: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> AuditEntry:
    """Record one change; call it inside the transaction that makes it.

    `action` is the subject's type and a participle (`agent.paused`). `before` and `after` hold what changed, by name;
    amounts as the API writes them, no secrets.
    """
    with transaction.atomic():
        return AuditEntry.objects.create(
            at=utc_now(),
            author=by,
            confirmed_by=_confirming.get(),
            action=action,
            subject_type=subject_type,
            subject=subject,
            reason=reason,
            before=_plain(before),
            after=_plain(after),
        )


def _plain(members: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if members is None:
        return None
    encoder = DjangoJSONEncoder()
    return {
        name: value if value is None or isinstance(value, bool | int | str | list) else encoder.default(value)
        for name, value in members.items()
    }

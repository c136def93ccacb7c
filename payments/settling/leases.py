"""Leases keep two workers from doing the same work at the same time. They save work; no correctness rests on them."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db.models import Q

from allowance.kernel.times import utc_now
from payments.models import Duty

# The lease of a worker that died is free again after this.
TERM = timedelta(seconds=15)


@contextmanager
def hold(name: str) -> Iterator[bool]:
    """Hold the lease of this name while the block runs, if nobody else holds it; yields whether it is held here."""
    now = utc_now()
    Duty.objects.get_or_create(name=name, defaults={"held_until": now})
    end = now + TERM
    # No lease lasts longer than its term: one that is held until later was dated by a wrong clock.
    is_free = Q(held_until__lte=now) | Q(held_until__gt=now + 2 * TERM)
    is_held = Duty.objects.filter(is_free, name=name).update(held_until=end) == 1
    try:
        yield is_held
    finally:
        if is_held:
            # If the work took longer than the term, somebody else may hold the lease by now, and keeps it.
            Duty.objects.filter(name=name, held_until=end).update(held_until=utc_now())

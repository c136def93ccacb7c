"""Take turns: what one worker does, another need not do at the same time. It spares work; it guards nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db.models import Q

from allowance.kernel.times import utc_now
from payments.models import Duty

# Whoever holds a duty and dies is waited for so long.
TERM = timedelta(seconds=15)


@contextmanager
def hold(name: str) -> Iterator[bool]:
    """Hold a duty while the block runs, if nobody else does; yields whether it is held here."""
    now = utc_now()
    Duty.objects.get_or_create(name=name, defaults={"held_until": now})
    end = now + TERM
    # Nobody holds one for longer than its term: what is held until later, a clock was wrong about.
    is_free = Q(held_until__lte=now) | Q(held_until__gt=now + 2 * TERM)
    is_held = Duty.objects.filter(is_free, name=name).update(held_until=end) == 1
    try:
        yield is_held
    finally:
        if is_held:
            # Unless it took longer than the term, and somebody else holds it by now.
            Duty.objects.filter(name=name, held_until=end).update(held_until=utc_now())

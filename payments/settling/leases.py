"""Leases keep two workers from doing the same work at the same time. They save work; no correctness rests on them."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from foundation.database import write_rows
from foundation.kernel.times import utc_now

# The lease of a worker that died is free again after this.
TERM = timedelta(seconds=15)


_TAKE = """
    INSERT INTO payments_duty AS lease (name, held_until) VALUES (%(name)s, %(end)s)
        ON CONFLICT (name) DO UPDATE SET held_until = EXCLUDED.held_until
     WHERE lease.held_until <= %(now)s OR lease.held_until > %(latest)s
"""
# If the work took longer than the term, somebody else may hold the lease by now, and keeps it.
_GIVE_BACK = "UPDATE payments_duty SET held_until = %(now)s WHERE name = %(name)s AND held_until = %(end)s"


@contextmanager
def hold(name: str) -> Iterator[bool]:
    """Hold the lease of this name while the block runs, if nobody else holds it; yields whether it is held here."""
    now = utc_now()
    # No lease lasts longer than its term: one that is held until later was dated by a wrong clock.
    lease = {"name": name, "end": now + TERM}
    is_held = write_rows(_TAKE, lease | {"now": now, "latest": now + 2 * TERM}) == 1
    try:
        yield is_held
    finally:
        if is_held:
            write_rows(_GIVE_BACK, lease | {"now": utc_now()})

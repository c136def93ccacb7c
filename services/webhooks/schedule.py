"""The schedule of attempts. Pure: the clock and chance are the caller's.

Source: docs/contract.md, "Webhooks"; each delay begins with the failure before it, as in Standard Webhooks 1.0.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

# Seconds before each attempt: the first at once, the tenth some three days after it.
DELAYS_S = (0, 5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
JITTER = 0.2
# An endpoint that only failed for this long is disabled.
GIVE_UP_AFTER = timedelta(days=5)
# After this long without an attempt, failures are counted anew: no delay is as long, so no event was due.
QUIET_AFTER = timedelta(days=2)
# The longest Retry-After that is respected.
LONGEST_RETRY_AFTER = timedelta(days=1)
_MOST_DIGITS = 9


def next_delay(attempts: int, chance: Callable[[], float]) -> timedelta | None:
    """Return the delay after a number of failed attempts; None: that was the last one.

    `chance` gives a number from 0 to 1, which spreads the delay evenly over 80 to 120 per cent.
    """
    if attempts >= len(DELAYS_S):
        return None
    spread = 1 - JITTER + 2 * JITTER * chance()
    return timedelta(seconds=DELAYS_S[attempts] * spread)


def read_retry_after(value: str, now: datetime) -> timedelta | None:
    """Read a `Retry-After` header, seconds or an HTTP date, as the time from `now` on; None: it says nothing."""
    text = value.strip()
    if text.isascii() and text.isdecimal():
        wait = timedelta(seconds=int(text[:_MOST_DIGITS])) if len(text) <= _MOST_DIGITS else LONGEST_RETRY_AFTER
    else:
        try:
            moment = parsedate_to_datetime(text)
        except (ValueError, OverflowError):  # a year of thirty digits is the latter
            return None
        wait = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now
    return min(wait, LONGEST_RETRY_AFTER) if wait > timedelta(0) else None

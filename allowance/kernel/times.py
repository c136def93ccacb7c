"""Instants: aware UTC datetimes inside, `2026-05-14T18:42:11.123Z` outside."""

from datetime import UTC, datetime, timedelta

# By so much clocks may differ.
LARGEST_SKEW = timedelta(seconds=5)


def to_milliseconds(instant: datetime) -> datetime:
    """Drop what a timestamp of the contract cannot say."""
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def format_instant(instant: datetime) -> str:
    """Write an aware datetime in UTC with exactly three fraction digits."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_now() -> datetime:
    """Tell the time, at the contract's precision."""
    return to_milliseconds(datetime.now(UTC))


def is_fresh(at: datetime | None, now: datetime, age: timedelta) -> bool:
    """Tell whether something was seen at most so long ago.

    What a clock that had jumped dated ahead is not: it would be believed until then. Nor is what was never seen.
    """
    return at is not None and -LARGEST_SKEW <= now - at <= age

"""Instants: aware UTC datetimes inside, `2026-05-14T18:42:11.123Z` outside."""

import re
from datetime import UTC, datetime, timedelta

# The most by which clocks may differ.
LARGEST_SKEW = timedelta(seconds=5)
# Of RFC 3339; `datetime.fromisoformat` alone also takes weeks, dates and local times.
INSTANT_PATTERN = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})"


def to_milliseconds(instant: datetime) -> datetime:
    """Drop the microseconds, which a timestamp of the contract does not have."""
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def format_instant(instant: datetime) -> str:
    """Write an aware datetime in UTC with exactly three fraction digits."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_instant(text: str) -> datetime:
    """Read an RFC 3339 timestamp with its offset; what is finer than a microsecond is dropped.

    Raises:
        ValueError: it is none, or there is no such moment.
    """
    if not re.fullmatch(INSTANT_PATTERN, text, re.ASCII):
        raise ValueError("Must be a timestamp such as 2026-05-14T18:42:11.123Z.")
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError("There is no such moment.") from error


def utc_now() -> datetime:
    """Tell the time, at the contract's precision."""
    return to_milliseconds(datetime.now(UTC))


def is_fresh(at: datetime | None, now: datetime, age: timedelta) -> bool:
    """Tell whether something was seen at most `age` ago.

    An instant further ahead than clocks may differ is not fresh: a clock that had jumped wrote it, and it would be
    believed until then. Nor is None: it was never seen.
    """
    return at is not None and -LARGEST_SKEW <= now - at <= age

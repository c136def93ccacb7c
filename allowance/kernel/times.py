"""Instants: aware UTC datetimes inside, `2026-05-14T18:42:11.123Z` outside."""

from datetime import UTC, datetime


def to_milliseconds(instant: datetime) -> datetime:
    """Drop what a timestamp of the contract cannot say."""
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def format_instant(instant: datetime) -> str:
    """Write an aware datetime in UTC with exactly three fraction digits."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_now() -> datetime:
    """Tell the time, at the contract's precision."""
    return to_milliseconds(datetime.now(UTC))

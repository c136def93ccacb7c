"""Hours of the week in a time zone, such as `mon-fri 09:00-17:00, sat 10:00-14:00 Europe/Berlin`. Pure.

Hours are those of the clock on the wall: a day on which clocks are set forward lacks the skipped ones, and what comes
twice when they are set back counts both times. A range includes its first minute and excludes its last; one that does
not end after it began goes on into the next day.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, cached_property, lru_cache
from zoneinfo import ZoneInfo, available_timezones

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MINUTES_OF_HOUR = 60
_MINUTES_OF_DAY = 24 * _MINUTES_OF_HOUR
_MINUTES_OF_WEEK = 7 * _MINUTES_OF_DAY
_DAY = "|".join(_DAYS)
_GROUP = re.compile(
    rf"(?:(?P<daily>daily)|(?P<first>{_DAY})(?:-(?P<last>{_DAY}))?)\s+(?P<from>[0-9]{{2}}:[0-9]{{2}})-(?P<until>[0-9]{{2}}:[0-9]{{2}})",
    re.ASCII,
)
_FORM = "Must be hours with a time zone, such as `mon-fri 09:00-17:00, sat 10:00-14:00 Europe/Berlin`."
Range = tuple[int, int]


@dataclass(frozen=True)
class Hours:
    """Some minutes of the week in a time zone. `ranges` are disjoint and in order, in minutes since Monday 00:00."""

    text: str
    zone: str
    ranges: tuple[Range, ...]

    def __str__(self) -> str:
        return self.text

    def allow(self, at: datetime) -> bool:
        """Tell whether an aware moment is within the hours."""
        return self._is_open(_minute_of_week(at.astimezone(self._zone)))

    def first_open(self, at: datetime) -> datetime:
        """Find the first moment within the hours that is not before an aware one; in its time zone."""
        moment = at
        while not self.allow(moment):
            local = moment.astimezone(self._zone)
            begins = self._next_begin(_minute_of_week(local))
            whole_minute = moment.replace(second=0, microsecond=0)
            later = whole_minute + timedelta(minutes=begins - _minute_of_week(local))
            is_steady = later.astimezone(self._zone).utcoffset() == local.utcoffset()
            # Where clocks are set meanwhile, time is looked at again from there on.
            moment = later if is_steady else self._find_change(whole_minute, later)
        return moment

    def includes(self, other: "Hours") -> bool:
        """Tell whether all minutes of others are among these, as far as that is certain: in one time zone."""
        return self.zone == other.zone and all(
            any(begins <= first and last <= ends for begins, ends in self.ranges) for first, last in other.ranges
        )

    @cached_property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.zone)

    def _is_open(self, minute: int) -> bool:
        place = bisect_right(self.ranges, (minute, _MINUTES_OF_WEEK)) - 1
        return place >= 0 and minute < self.ranges[place][1]

    def _next_begin(self, minute: int) -> int:
        """Return the minute at which the next range begins, counted on beyond the end of the week."""
        return next((begins for begins, _ in self.ranges if begins > minute), self.ranges[0][0] + _MINUTES_OF_WEEK)

    def _find_change(self, before: datetime, after: datetime) -> datetime:
        """Find the first minute at which the clocks are no more as they were."""
        as_before = before.astimezone(self._zone).utcoffset()
        minutes = int((after - before).total_seconds()) // 60
        low, high = 0, minutes
        while high - low > 1:
            middle = (low + high) // 2
            if (before + timedelta(minutes=middle)).astimezone(self._zone).utcoffset() == as_before:
                low = middle
            else:
                high = middle
        return before + timedelta(minutes=high)


@lru_cache(maxsize=1024)
def parse_hours(text: str) -> Hours:
    """Read hours of the week.

    Raises:
        ValueError: says in a sentence what is wrong.
    """
    groups, _, zone = text.strip().rpartition(" ")
    parts = [" ".join(part.lower().split()) for part in groups.split(",")]
    found = [_GROUP.fullmatch(part) for part in parts]
    if None in found:
        raise ValueError(_FORM)
    if zone not in _zones():
        raise ValueError(f"There is no time zone {zone[:64]}. {_FORM}")
    ranges = [one for match in found if match is not None for one in _ranges_of(match)]
    return Hours(f"{', '.join(parts)} {zone}", zone, tuple(_merge(ranges)))


@cache
def _zones() -> set[str]:
    """Return the zones that mean the same on every machine."""
    return available_timezones() - {"Factory", "localtime"}


def _ranges_of(match: re.Match[str]) -> Iterable[Range]:
    begins, ends = _minute_of_day(match["from"]), _minute_of_day(match["until"])
    if begins == _MINUTES_OF_DAY:
        raise ValueError(f"No time begins at 24:00. {_FORM}")
    if ends <= begins:
        ends += _MINUTES_OF_DAY
    first = 0 if match["daily"] else _DAYS.index(match["first"])
    last = 6 if match["daily"] else _DAYS.index(match["last"] or match["first"])
    for day in range(first, (last if last >= first else last + 7) + 1):
        start = day % 7 * _MINUTES_OF_DAY
        yield start + begins, min(start + ends, _MINUTES_OF_WEEK)
        if start + ends > _MINUTES_OF_WEEK:
            yield 0, start + ends - _MINUTES_OF_WEEK


def _minute_of_day(text: str) -> int:
    hours, minutes = map(int, text.split(":"))
    if minutes >= _MINUTES_OF_HOUR or hours * _MINUTES_OF_HOUR + minutes > _MINUTES_OF_DAY:
        raise ValueError(f"There is no time {text}. {_FORM}")
    return hours * _MINUTES_OF_HOUR + minutes


def _minute_of_week(local: datetime) -> int:
    return local.weekday() * _MINUTES_OF_DAY + local.hour * _MINUTES_OF_HOUR + local.minute


def _merge(ranges: Iterable[Range]) -> list[Range]:
    merged: list[Range] = []
    for begins, ends in sorted(ranges):
        if merged and begins <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], ends)
        else:
            merged.append((begins, ends))
    return merged

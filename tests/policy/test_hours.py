"""Hours of the week in a time zone, beside a count of the minutes one by one."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.hours import parse_hours

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY, WEEK = 24 * 60, 7 * 24 * 60
MINUTE = timedelta(minutes=1)
# Where clocks are set: by an hour, by half of one, for a month in winter, at odd offsets, or never.
ZONES = (
    "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "America/St_Johns",
    "Pacific/Chatham", "Asia/Kathmandu", "Pacific/Kiritimati", "UTC",
)  # fmt: skip


def find_changes(zone):
    """Find, to the hour, when a zone's clocks are set in three years."""
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    offsets = [
        (at := begin + timedelta(hours=hour), at.astimezone(ZoneInfo(zone)).utcoffset()) for hour in range(26280)
    ]
    return [at for (_, before), (at, offset) in pairwise(offsets) if before != offset] or [begin]


CHANGES = {zone: find_changes(zone) for zone in ZONES}


def clock(minute):
    return f"{minute // 60:02}:{minute % 60:02}"


def minute_of_week(local):
    return local.weekday() * DAY + local.hour * 60 + local.minute


@st.composite
def groups(draw):
    """Draw a range on some days: its text, and its minutes of the week."""
    first, last = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    begins, ends = draw(st.integers(0, DAY - 1)), draw(st.integers(0, DAY))
    days = [(first + number) % 7 for number in range((last - first) % 7 + 1)]
    length = (ends - begins) if ends > begins else ends - begins + DAY
    minutes = {(day * DAY + begins + minute) % WEEK for day in days for minute in range(length)}
    named = DAYS[first] if first == last else f"{DAYS[first]}-{DAYS[last]}"
    return f"{named} {clock(begins)}-{clock(ends)}", minutes


@st.composite
def schedules(draw):
    """Draw groups: their text, and the minutes of all."""
    drawn = draw(st.lists(groups(), min_size=1, max_size=3))
    return ", ".join(text for text, _ in drawn), set().union(*(minutes for _, minutes in drawn))


@st.composite
def places(draw):
    """Draw a zone, and a moment within days of a setting of its clocks."""
    zone = draw(st.sampled_from(ZONES))
    ago = timedelta(seconds=draw(st.integers(-2 * 86400, 5 * 86400)), milliseconds=draw(st.sampled_from([0, 1, 999])))
    return zone, draw(st.sampled_from(CHANGES[zone])) - ago


@given(schedules())
def test_every_minute_of_the_week_is_open_or_not_as_it_is_written(schedule):
    text, minutes = schedule
    hours = parse_hours(f"{text} UTC")
    monday = datetime(2026, 5, 11, tzinfo=UTC)

    assert {minute for minute in range(WEEK) if hours.allow(monday + minute * MINUTE)} == minutes


@settings(max_examples=150)
@given(schedules(), places())
def test_the_first_open_moment_is_the_one_that_is_found_minute_by_minute(schedule, place):
    (text, minutes), (zone, at) = schedule, place
    expected, of_zone = at, ZoneInfo(zone)
    while minute_of_week(expected.astimezone(of_zone)) not in minutes:
        expected = expected.replace(second=0, microsecond=0) + MINUTE

    hours = parse_hours(f"{text} {zone}")

    assert hours.first_open(at) == expected
    assert hours.allow(at) is (expected == at)
    assert hours.allow(expected)


@given(schedules(), schedules())
def test_hours_include_others_if_and_only_if_they_have_all_their_minutes(one, other):
    (text, minutes), (others_text, others) = one, other
    hours, both = parse_hours(f"{text} UTC"), parse_hours(f"{text}, {others_text} UTC")

    assert hours.includes(parse_hours(f"{others_text} UTC")) is (others <= minutes)
    assert both.includes(hours)
    assert not both.includes(parse_hours(f"{others_text} Europe/London"))


@given(schedules(), st.sampled_from(ZONES))
def test_hours_are_written_as_they_are_read(schedule, zone):
    hours = parse_hours(f"{schedule[0]} {zone}")

    assert str(hours) == f"{schedule[0]} {zone}"
    assert parse_hours(str(hours)) == hours
    assert parse_hours(f"  {schedule[0].upper().replace(' ', '  ')}   {zone} ") == hours


# --- When clocks are set ----------------------------------------------------------------------------------------------
BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


@pytest.mark.parametrize(
    ("hours", "at", "opens"),
    [
        # Clocks are set forward at 02:00 in Berlin: what is from 02:00 to 03:00 is not there on that day.
        (f"daily 02:00-03:00 {BERLIN}", "2026-03-29T00:59:59Z", "2026-03-30T00:00:00Z"),
        # From 02:30 to 03:30 is there from 03:00 on.
        (f"daily 02:30-03:30 {BERLIN}", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"),
        (f"sun 09:00-10:00 {BERLIN}", "2026-03-28T12:00:00Z", "2026-03-29T07:00:00Z"),
        (f"mon 09:00-10:00 {BERLIN}", "2026-03-27T12:00:00Z", "2026-03-30T07:00:00Z"),
        # Clocks are set back at 03:00: what is from 02:00 to 02:30 is there twice.
        (f"daily 02:00-02:30 {BERLIN}", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z"),
        (f"daily 02:00-02:30 {BERLIN}", "2026-10-25T01:30:00Z", "2026-10-26T01:00:00Z"),
        (f"daily 02:30-02:45 {BERLIN}", "2026-10-25T00:50:00.5Z", "2026-10-25T01:30:00Z"),
        (f"mon 09:00-10:00 {BERLIN}", "2026-10-23T12:00:00Z", "2026-10-26T08:00:00Z"),
        (f"mon-fri 09:00-17:00 {NEW_YORK}", "2026-03-06T22:00:00Z", "2026-03-09T13:00:00Z"),
        (f"mon-fri 09:00-17:00 {NEW_YORK}", "2026-10-30T21:00:00Z", "2026-11-02T14:00:00Z"),
        # A leap day, a Tuesday.
        ("tue 00:00-24:00 UTC", "2028-02-28T23:59:59.999Z", "2028-02-29T00:00:00Z"),
        ("wed 00:00-24:00 UTC", "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"),
        ("wed 08:00-09:00 Asia/Kathmandu", "2028-02-29T12:00:00Z", "2028-03-01T02:15:00Z"),
        # The end of a week, and of a year.
        ("mon 00:00-00:01 UTC", "2026-05-10T23:59:59.999Z", "2026-05-11T00:00:00Z"),
        ("mon 00:00-00:01 UTC", "2026-05-11T00:01:00Z", "2026-05-18T00:00:00Z"),
        ("fri 00:00-01:00 UTC", "2026-12-31T23:00:00Z", "2027-01-01T00:00:00Z"),
    ],
)
def test_hours_are_those_of_the_clock_on_the_wall(hours, at, opens):
    hours, at, opens = parse_hours(hours), datetime.fromisoformat(at), datetime.fromisoformat(opens)

    assert hours.first_open(at) == opens
    assert not hours.allow(at)
    assert hours.allow(opens)
    assert not hours.allow(opens - timedelta(milliseconds=1))


@pytest.mark.parametrize(
    ("hours", "opened", "closed"),
    [
        ("mon 09:00-17:00 UTC", "2026-05-11T16:59:59.999999Z", "2026-05-11T17:00:00Z"),
        # Over night, from Friday into Saturday; and from Sunday into the next week.
        ("fri 22:00-06:00 UTC", "2026-05-16T05:59:00Z", "2026-05-16T06:00:00Z"),
        ("fri 22:00-06:00 UTC", "2026-05-15T22:00:00Z", "2026-05-15T05:00:00Z"),
        ("sun 22:00-06:00 UTC", "2026-05-11T05:59:00Z", "2026-05-11T06:00:00Z"),
        ("sat-mon 12:00-13:00 UTC", "2026-05-10T12:00:00Z", "2026-05-12T12:00:00Z"),
        ("daily 00:00-24:00 UTC, mon 09:00-10:00 UTC".replace(" UTC,", ","), "2026-05-12T23:59:59Z", None),
        # As long as a day: from nine to nine.
        ("mon 09:00-09:00 UTC", "2026-05-12T08:59:00Z", "2026-05-12T09:00:00Z"),
    ],
)
def test_a_range_has_its_first_minute_and_not_its_last(hours, opened, closed):
    assert parse_hours(hours).allow(datetime.fromisoformat(opened))
    assert closed is None or not parse_hours(hours).allow(datetime.fromisoformat(closed))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Must be hours with a time zone"),
        ("UTC", "Must be hours with a time zone"),
        ("mon-fri 09:00-17:00", "Must be hours with a time zone"),
        ("mon-fri 9:00-17:00 UTC", "Must be hours with a time zone"),
        ("mon-fri 09:00-17:00, UTC", "Must be hours with a time zone"),
        ("mon\u2013fri 09:00-17:00 UTC", "Must be hours with a time zone"),
        ("monday 09:00-17:00 UTC", "Must be hours with a time zone"),
        ("mon-fri 09:00 - 17:00 UTC", "Must be hours with a time zone"),
        ("mon \u0660\u0669:\u0660\u0660-17:00 UTC", "Must be hours with a time zone"),
        ("mon 09:60-17:00 UTC", "There is no time 09:60"),
        ("mon 09:00-24:01 UTC", "There is no time 24:01"),
        ("mon 09:00-17:00 Mars/Olympus", "There is no time zone Mars/Olympus"),
        ("mon 09:00-17:00 ../UTC", "There is no time zone"),
        ("mon 09:00-17:00 /etc/localtime", "There is no time zone"),
        ("mon 09:00-17:00 Europe", "There is no time zone Europe"),
        ("mon 09:00-17:00 \0", "There is no time zone"),
        (f"mon 09:00-17:00 {'x' * 5000}", "There is no time zone x"),
    ],
)
def test_what_are_no_hours_is_refused_in_a_sentence(text, said):
    with pytest.raises(ValueError, match=said):
        parse_hours(text)

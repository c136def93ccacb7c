"""Ids and instants as the contract writes them."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest

from foundation.kernel.ids import new_id, time_of
from foundation.kernel.times import format_instant, to_milliseconds, utc_now
from tests.support.answers import ULID

AT = datetime(2026, 5, 14, 18, 42, 11, 123000, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


@pytest.mark.parametrize("prefix", ["pay", "log", "evt", "req"])
def test_an_id_is_its_prefix_and_a_lower_case_ulid(prefix):
    assert re.fullmatch(f"{prefix}_{ULID}", new_id(prefix, AT))


def test_an_id_tells_the_instant_it_was_made_for():
    assert time_of(new_id("log", AT)) == AT


def test_two_ids_of_one_instant_differ():
    assert len({new_id("pay", AT) for _ in range(1000)}) == 1000


def test_ids_sort_by_the_instant_they_were_made_for():
    assert new_id("log", AT) < new_id("log", AT + MILLISECOND) < new_id("log", AT + timedelta(days=9999))


def test_an_id_made_after_another_of_the_same_instant_sorts_behind_it():
    ids = [new_id("log", AT)]
    for _ in range(200):
        ids.append(new_id("log", AT, after=ids[-1]))

    assert ids == sorted(set(ids))
    assert {time_of(identifier) for identifier in ids} == {AT}


def test_an_instant_is_written_in_utc_with_three_fraction_digits():
    assert format_instant(AT) == "2026-05-14T18:42:11.123Z"
    assert format_instant(AT.replace(microsecond=0)) == "2026-05-14T18:42:11.000Z"
    assert format_instant(AT.replace(microsecond=999999)) == "2026-05-14T18:42:11.999Z"
    assert format_instant(AT.astimezone(timezone(timedelta(hours=5, minutes=30)))) == "2026-05-14T18:42:11.123Z"


def test_time_is_told_at_the_precision_of_the_contract():
    assert utc_now().microsecond % 1000 == 0
    assert to_milliseconds(AT.replace(microsecond=123999)) == AT

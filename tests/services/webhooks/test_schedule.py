"""When an event is told again: the arithmetic, and the rows that follow it."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.webhooks.claims import claim_deliveries
from services.webhooks.schedule import next_delay, read_retry_after
from tests.services.webhooks.told import (
    DAY,
    HOUR,
    MINUTE,
    REFUSED,
    SECOND,
    Payee,
    delivery_of,
    outcomes_of,
    record,
    result_of,
)

# The contract's own numbers: before each of the ten attempts.
DELAYS_S = (0, 5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)
NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)


# --- Arithmetic -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("chance", "factor"), [(0.0, 0.8), (0.5, 1.0), (1.0, 1.2)])
@pytest.mark.parametrize("attempts", range(10))
def test_a_delay_is_the_contracts_give_or_take_a_fifth(attempts, chance, factor):
    assert next_delay(attempts, lambda: chance) == timedelta(seconds=round(DELAYS_S[attempts] * factor, 3))


@pytest.mark.parametrize("attempts", [10, 11, 32767])
def test_after_ten_attempts_there_is_none(attempts):
    assert next_delay(attempts, lambda: 0.5) is None


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("1", SECOND),
        ("120", 2 * MINUTE),
        (" 120\t", 2 * MINUTE),
        ("0000120", 2 * MINUTE),
        ("86399", DAY - SECOND),
        ("86400", DAY),
        ("86401", DAY),
        ("999999999", DAY),
        ("9" * 5000, DAY),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30 * SECOND),
        ("Sunday, 01-Mar-26 12:00:30 GMT", 30 * SECOND),
        ("Sun Mar  1 12:00:30 2026", 30 * SECOND),
        ("Sun, 01 Mar 2026 14:00:30 +0200", 30 * SECOND),
        ("Tue, 03 Mar 2026 12:00:00 GMT", DAY),
        ("Fri, 31 Dec 9999 23:59:59 GMT", DAY),
    ],
)
def test_a_retry_after_is_seconds_or_a_date_and_at_most_a_day(value, wait):
    assert read_retry_after(value, NOW) == wait


@pytest.mark.parametrize(
    "value",
    [
        "", " ", "0", "-1", "-86400", "+5", "1.5", "1e3", "0x10", "5 s", "soon", "NaN", ",",
        "\u0663", "\u00b2", "\uff15", "\x00",
        "Sun, 01 Mar 2026 12:00:00 GMT", "Sun, 01 Mar 2026 11:59:59 GMT", "Thu, 01 Jan 1970 00:00:00 GMT",
        "Sun, 99 Mar 2026 12:00:00 GMT", "Mon, 1 Jan 99999999999999999999 00:00:00 GMT",
        "1 Jan 2027 00:00:00 +99999999999999999", "1 Jan 2027 00:00:00 +9999", "2026-03-02T12:00:00Z",
    ],
)  # fmt: skip
def test_what_is_neither_or_past_says_nothing(value):
    assert read_retry_after(value, NOW) is None


@given(st.text() | st.text(alphabet="0123456789:+- ,JanGMTue"))
def test_whatever_a_receiver_writes_puts_us_off_by_a_day_at_most(value):
    wait = read_retry_after(value, NOW)

    assert wait is None or timedelta(0) < wait <= DAY


# --- Rows, with a clock that steps ------------------------------------------------------------------------------------
@pytest.mark.parametrize(("chance", "factor"), [(0.0, 0.8), (0.5, 1.0), (1.0, 1.2)])
@pytest.mark.django_db
def test_ten_attempts_are_made_each_its_delay_after_the_failure_before_it(chance, factor):
    payee = Payee()
    (event,) = payee.hear()
    failed_at = payee.at

    for delay_s in DELAYS_S:
        due_at = failed_at + timedelta(seconds=round(delay_s * factor, 3))
        assert payee.claim(due_at - MOMENT) == []
        # An answer takes its time: what comes next is counted from its failure, not from when it was due.
        failed_at = due_at + 3 * SECOND
        payee.attempt(failed_at, chance=chance, **REFUSED)

    delivery = delivery_of(event)
    assert (delivery.state, delivery.attempts, delivery.next_attempt_at) == ("failed", 10, None)
    assert payee.claim(failed_at + 365 * DAY) == []
    assert outcomes_of(event) == ["status"] * 10


@pytest.mark.django_db
def test_a_success_ends_the_schedule():
    payee = Payee()
    (event,) = payee.hear()
    payee.attempt(**REFUSED)

    payee.attempt(payee.at + 5 * SECOND)

    delivery = delivery_of(event)
    assert (delivery.state, delivery.attempts, delivery.next_attempt_at) == ("delivered", 2, None)
    assert delivery.delivered_at == payee.at + 5 * SECOND
    assert payee.claim(payee.at + 365 * DAY) == []


@pytest.mark.django_db
def test_a_retry_after_that_is_later_than_the_schedule_holds_the_whole_endpoint():
    payee, other = Payee(), Payee()
    first, second = payee.hear(2, at=payee.at - SECOND)
    assert payee.attempt(**REFUSED, retry_after="3600") == first
    other.hear(at=payee.at + MINUTE)

    assert delivery_of(first).next_attempt_at == payee.at + HOUR
    assert {one.endpoint_id for one in claim_deliveries(1000, payee.at + HOUR - MOMENT)} == {other.id}
    # What was not attempted has been due for longer. It comes first, one at a time, as the endpoint fails.
    assert [one.event_id for one in payee.claim(payee.at + HOUR)] == [second]


@pytest.mark.parametrize("retry_after", ["1", "4", "", "yesterday", "Thu, 01 Jan 1970 00:00:00 GMT"])
@pytest.mark.django_db
def test_a_retry_after_that_is_earlier_than_the_schedule_or_says_nothing_changes_nothing(retry_after):
    payee = Payee()
    (event,) = payee.hear()

    payee.attempt(**REFUSED, retry_after=retry_after)

    assert delivery_of(event).next_attempt_at == payee.at + 5 * SECOND
    assert payee.claim(payee.at + 5 * SECOND - MOMENT) == []
    assert len(payee.claim(payee.at + 5 * SECOND)) == 1


@pytest.mark.django_db
def test_a_receiver_puts_us_off_by_a_day_at_most():
    payee = Payee()
    payee.hear()

    payee.attempt(**REFUSED, retry_after="99999999")

    assert payee.claim(payee.at + DAY - MOMENT) == []
    assert len(payee.claim(payee.at + DAY)) == 1


@pytest.mark.django_db
def test_an_earlier_retry_after_does_not_take_back_a_later_one():
    payee = Payee(works=True)
    payee.hear(2, at=payee.at - SECOND)
    claimed = payee.claim()

    _refuse(payee, claimed[:1], retry_after="3600")
    _refuse(payee, claimed[1:], retry_after="60")

    assert payee.endpoint.held_until == payee.at + HOUR


@pytest.mark.django_db
def test_a_retry_after_beside_a_success_is_not_heeded():
    payee = Payee()
    payee.hear(2, at=payee.at - SECOND)

    payee.attempt(retry_after="3600")

    assert payee.endpoint.held_until is None
    assert len(payee.claim()) == 1


@pytest.mark.django_db
def test_a_retry_after_saves_no_attempt_from_being_the_last():
    payee = Payee()
    (event,) = payee.hear()
    delivery = delivery_of(event)
    delivery.attempts = 9
    delivery.save()

    payee.attempt(**REFUSED, retry_after="3600")

    assert delivery_of(event).state == "failed"


def _refuse(payee, claimed, **result):
    record(payee.at, *(result_of(one, payee.at, **(REFUSED | result)) for one in claimed))

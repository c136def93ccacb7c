"""Whether what is wrong is noticed: evidence of a clean storm, spoilt in one place each."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.overspend.answers import Told
from tests.overspend.evidence import Account, Entry, Evidence, Kind, Limits, Paid
from tests.overspend.judging import Verdict, judge
from tests.overspend.windows import worst_window
from tests.support.storms import Answer, Shot

NOON = datetime(2026, 5, 14, 12, tzinfo=UTC)
HOUR, DAY, WEEK = timedelta(hours=1), timedelta(hours=24), timedelta(days=7)
MILLISECOND = timedelta(milliseconds=1)
ONE = Decimal(1)


def limits(day: int, week: int = 100, since: datetime | None = None) -> Limits:
    return Limits(Decimal(10), Decimal(day), Decimal(week), since)


def spends(*moments: datetime) -> list[tuple[datetime, Decimal]]:
    return [(moment, ONE) for moment in moments]


def approval(number: int) -> tuple[Told, Entry, Paid]:
    """Make one payment of 1.00 as its client, the log and the payments know it."""
    at = NOON + number * MILLISECOND
    key, entry_id, payment_id = f"key-{number}", f"log_{number}", f"pay_{number}"
    body = {"agentId": "agent", "service": "service", "amount": "1.00", "asset": "USDC", "reason": "A test"}
    text = f'{{"id": "{payment_id}", "createdAt": "{at.isoformat()}"}}'
    told = Told(Shot("", "alw", key, body), Answer(number, 201, text, is_replay=False, sent_at=float(number)))
    entry = Entry(entry_id, "agent", key, "service", ONE, "USDC", True, at, payment_id)
    return told, entry, Paid(payment_id, "agent", entry_id, ONE, at, 1)


def refusal(number: int) -> tuple[Told, Entry]:
    told, entry, _ = approval(number)
    text = f'{{"error": {{"code": "budget_exceeded", "logId": "{entry.id}"}}}}'
    return Told(told.shot, replace(told.answer, status=422, text=text)), replace(
        entry, is_approved=False, payment_id=None
    )


def storm(day: int = 2, **account: Any) -> Evidence:
    """Two payments and a refusal, of which the client was told twice of the first one."""
    first, first_entry, first_paid = approval(1)
    second, second_entry, second_paid = approval(2)
    third, third_entry = refusal(3)
    return Evidence(
        [Account("agent", "USDC", [limits(day)], **account)],
        [first, second, third, Told(first.shot, replace(first.answer, is_replay=True))],
        [first_entry, second_entry, third_entry],
        [first_paid, second_paid],
        {("service", "USDC"): Decimal(2)},
    )


def found(verdict: Verdict) -> set[Kind]:
    return {kind for kind, sentences in verdict.problems.items() if sentences}


# --- Windows ----------------------------------------------------------------------------------------------------------
def test_spending_just_the_limit_within_a_day_is_not_over_it():
    worst = worst_window([limits(2)], spends(NOON, NOON + DAY - MILLISECOND))

    assert (worst.allowed, worst.spent) == (Decimal(2), Decimal(2))


@pytest.mark.parametrize(("gap", "over"), [(DAY - MILLISECOND, 1), (DAY, 0)], ids=["within a day", "a day apart"])
def test_what_is_spent_on_both_sides_of_midnight_counts_in_one_window(gap, over):
    moments = spends(NOON, NOON + gap)

    assert worst_window([limits(1)], moments).over == over


@pytest.mark.parametrize(("gap", "over"), [(WEEK - MILLISECOND, 1), (WEEK, 0)], ids=["within a week", "a week apart"])
def test_a_week_rolls_as_a_day_does(gap, over):
    assert worst_window([limits(5, week=1)], spends(NOON, NOON + gap)).over == over


def test_a_window_that_was_over_its_limit_in_the_middle_is_found():
    moments = spends(NOON, NOON + HOUR, NOON + 2 * HOUR, NOON + 3 * DAY)

    assert worst_window([limits(2)], moments).over == 1


def test_what_is_decided_after_a_limit_was_lowered_has_to_keep_to_it():
    lowered = [limits(5), limits(1, since=NOON)]

    assert worst_window(lowered, spends(NOON - HOUR, NOON)).over <= 0
    assert worst_window(lowered, spends(NOON - HOUR, NOON + MILLISECOND)).over == 1


def test_a_payment_that_is_larger_than_allowed_is_found():
    assert worst_window([Limits(ONE, Decimal(10), Decimal(10))], [(NOON, Decimal(3))]).over == 2


# --- Judging ----------------------------------------------------------------------------------------------------------
def test_a_clean_storm_is_clean():
    verdict = judge(storm(wanted=Decimal(2)))

    assert verdict.is_clean
    assert (verdict.requests, verdict.approved, verdict.decided, verdict.found) == (4, 2, 4, 4)
    assert (verdict.allowed, verdict.spent, verdict.overspend) == (Decimal(2), Decimal(2), Decimal(0))


def test_spending_more_than_the_limit_is_overspend():
    verdict = judge(storm(day=1))

    assert verdict.overspend == 1
    assert found(verdict) == {Kind.OVERSPENT}


def test_a_doubled_amount_is_overspend_in_whichever_count_it_is():
    evidence = storm()
    told, *others, _ = evidence.told
    doubled = Told(replace(told.shot, body={**told.shot.body, "amount": "2.00"}), told.answer)
    entry, *entries = evidence.entries
    payment, *payments = evidence.payments

    for spoilt in (
        replace(evidence, told=[doubled, *others]),
        replace(evidence, entries=[replace(entry, amount=Decimal(2)), *entries]),
        replace(evidence, payments=[replace(payment, amount=Decimal(2)), *payments]),
    ):
        verdict = judge(spoilt)
        assert verdict.overspend == 1
        assert Kind.OVERSPENT in found(verdict)


def test_an_entry_that_is_missing_is_a_lost_decision():
    for missing in range(3):
        evidence = storm()
        rest = [entry for number, entry in enumerate(evidence.entries) if number != missing]

        verdict = judge(replace(evidence, entries=rest))

        assert verdict.found < verdict.decided
        assert Kind.LOST in found(verdict)


def test_an_entry_that_says_otherwise_than_the_client_was_told_is_a_lost_decision():
    evidence = storm()
    changed = [replace(evidence.entries[0], service="another"), *evidence.entries[1:]]

    assert found(judge(replace(evidence, entries=changed))) == {Kind.LOST}


def test_an_approval_that_nobody_was_told_is_a_lost_decision():
    evidence = storm()
    told = [one for one in evidence.told if one.key != "key-2"]

    assert Kind.LOST in found(judge(replace(evidence, told=told)))


def test_a_payment_that_is_missing_is_lost():
    evidence = storm()

    assert Kind.LOST in found(judge(replace(evidence, payments=evidence.payments[:1])))


def test_a_second_payment_of_an_entry_is_a_double_payment():
    evidence = storm(day=5)
    second = replace(evidence.payments[0], id="pay_9")

    assert Kind.DOUBLED in found(judge(replace(evidence, payments=[*evidence.payments, second])))


@pytest.mark.parametrize(("transactions", "kind"), [(0, Kind.LOST), (2, Kind.DOUBLED)])
def test_a_payment_has_one_transaction(transactions, kind):
    evidence = storm()
    first, second = evidence.payments

    verdict = judge(replace(evidence, payments=[replace(first, transactions=transactions), second]))

    assert found(verdict) == {kind}


@pytest.mark.parametrize(("units", "kind"), [(1, Kind.LOST), (3, Kind.DOUBLED)])
def test_a_payee_gets_what_was_approved(units, kind):
    arrived = {("service", "USDC"): Decimal(units)}

    assert found(judge(replace(storm(), arrived=arrived))) == {kind}


def test_a_key_that_is_answered_in_two_ways_is_a_double_payment():
    evidence = storm(day=5)
    first = evidence.told[0]
    other = replace(first.answer, text=first.answer.text.replace("pay_1", "pay_9"), is_replay=True)

    verdict = judge(replace(evidence, told=[*evidence.told, Told(first.shot, other)]))

    assert Kind.DOUBLED in found(verdict)


def test_a_key_that_is_decided_afresh_is_a_double_payment():
    evidence = storm()
    first = evidence.told[0]

    assert found(judge(replace(evidence, told=[*evidence.told, first]))) == {Kind.DOUBLED}


def test_what_is_sent_after_it_was_forbidden_and_approved_is_overspend():
    verdict = judge(storm(closed_at=1.5))

    assert verdict.overspend == 1
    assert found(verdict) == {Kind.OVERSPENT}


def test_an_agent_that_pays_in_an_asset_of_others_overspends():
    evidence = storm()
    evidence.accounts[0].asset = "EURC"

    assert found(judge(evidence)) == {Kind.OVERSPENT}


@pytest.mark.parametrize("status", [0, 429, 503])
def test_a_request_that_is_never_decided_makes_a_scenario_unfit(status):
    told, *_ = approval(4)
    unheard = Told(told.shot, replace(told.answer, status=status, text=""))
    evidence = storm()

    assert found(judge(replace(evidence, told=[*evidence.told, unheard]))) == {Kind.UNFIT}
    evidence = storm(is_flooder=True)
    assert judge(replace(evidence, told=[*evidence.told, unheard])).is_clean


def test_an_error_of_the_server_makes_a_scenario_unfit_even_if_a_retry_helps():
    evidence = storm()
    broken = Told(evidence.told[0].shot, replace(evidence.told[0].answer, status=500, text="{}"))

    assert found(judge(replace(evidence, told=[broken, *evidence.told]))) == {Kind.UNFIT}


def test_a_storm_that_does_not_use_up_a_limit_makes_a_scenario_unfit():
    assert found(judge(storm(day=3, wanted=Decimal(3)))) == {Kind.UNFIT}


def test_what_only_the_scenario_saw_counts():
    assert found(judge(replace(storm(), seen=[(Kind.DOUBLED, "It was so.")]))) == {Kind.DOUBLED}

"""What waits for a person's approval in sums, pictures, statements, searches and alarms: it is no refusal.

What was approved later than it was asked for counts on the day of its approval.
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from backoffice.alarms.looking import look
from backoffice.findings import find_work
from backoffice.list_sums import sum_up_entries, sum_up_payments
from backoffice.models import Alarm, DailyTotal, RollUp
from backoffice.paid_services import find_paid
from backoffice.pictures import draw_pictures
from backoffice.rollups import roll_up
from backoffice.search import search
from backoffice.statements import Month, state_payee
from foundation.kernel.times import utc_now
from ledger.models import Hold, HoldAnswer
from payments.findings.waiting import find_holds, find_unsigned_holds
from payments.holding.finishing import finish_holds
from payments.models import Payment
from payments.settling.transitions import fail
from policy.operations import pause_agent, switch_signer
from tests.support.factories import decide, make_service
from tests.support.holds import asks_above, end, environment_at, finish, hold_of, say

HOUR = timedelta(hours=1)
MIDDAY = datetime(2026, 3, 31, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _afresh(db):
    DailyTotal.objects.all().delete()
    RollUp.objects.all().delete()


def held(amount="6", *, at=None, **more):
    return decide(asks_above(**more), make_service(), amount, at=at)


def totals(agent):
    rows = DailyTotal.objects.filter(agent=agent).order_by("day", "result")
    return [(row.day, row.result, row.count, row.amount) for row in rows]


# --- Totals -----------------------------------------------------------------------------------------------------------
def test_what_is_held_is_added_up_by_itself_and_once_more_once_it_was_decided():
    asked, approved = MIDDAY, MIDDAY + 20 * HOUR
    entry = held(at=asked)
    end(entry, at=approved)

    roll_up(approved + timedelta(days=3))

    assert totals(entry.agent_id) == [
        (asked.date(), "held", 1, Decimal(6)),
        (approved.date(), "approved", 1, Decimal(6)),
    ]


def test_what_fails_is_taken_off_the_day_on_which_a_person_approved_it():
    asked, approved = MIDDAY, MIDDAY + 20 * HOUR
    entry = held(at=asked)
    end(entry, at=approved)
    payment = Payment.objects.get(pk=entry.payment_id)
    fail(payment, reason="A test")
    Payment.objects.filter(pk=payment.pk).update(failed_at=approved + HOUR)

    roll_up(approved + timedelta(days=3))

    assert (approved.date(), "failed", 1, Decimal(6)) in totals(entry.agent_id)


def yesterday():
    return utc_now() - timedelta(days=1)


def told(sums):
    return {(line.asset, line.words): (line.count, line.total) for line in sums.lines}


def test_sums_of_the_log_tell_what_is_held_from_what_was_refused():
    entry = held(at=yesterday(), approval_hours=72)
    roll_up(utc_now() - timedelta(minutes=5))
    end(entry, HoldAnswer.DECLINE)

    assert told(sum_up_entries({"agent": entry.agent_id})) == {
        ("USDC", "held for approval"): (1, Decimal(6)), ("USDC", "refused"): (1, Decimal(6)),
    }  # fmt: skip


@pytest.mark.parametrize("is_added_up", [True, False])
def test_payments_are_summed_up_on_the_day_of_their_approval(is_added_up):
    entry = held(at=yesterday(), approval_hours=72)
    roll_up(utc_now() - timedelta(minutes=5))
    end(entry)
    if is_added_up:
        roll_up(utc_now() + HOUR)
    today, before = f"{utc_now():%Y-%m-%d}", f"{yesterday():%Y-%m-%d}"
    paid = {("USDC", "approved"): (1, Decimal(6))}

    assert told(sum_up_payments({"agent": entry.agent_id})) == paid
    assert told(sum_up_payments({"agent": entry.agent_id, "since": today})) == paid
    assert told(sum_up_payments({"agent": entry.agent_id, "since": before, "until": before})) == {}
    (one,) = find_paid([entry.service])[entry.service]
    assert (one.count, one.amount) == (1, Decimal(6))


def test_the_picture_of_decisions_has_a_line_of_its_own_for_what_is_held():
    held(at=yesterday())
    roll_up(utc_now())

    lines = {name.text: count for name, count in draw_pictures(utc_now()).decisions.rows}

    assert lines["held for approval"].text == "1"
    assert "result__exact=held" in lines["held for approval"].url
    assert not [name for name in lines if name.startswith("refused")]


def test_a_payees_statement_has_it_in_the_month_of_its_approval():
    asked, approved = datetime(2026, 3, 31, 20, tzinfo=UTC), datetime(2026, 4, 1, 4, tzinfo=UTC)
    service = make_service()
    entry = decide(asks_above(), service, "6", at=asked)
    end(entry, at=approved)

    assert state_payee(service, Month.of(2026, 3)).count == 0
    (april,) = state_payee(service, Month.of(2026, 4)).payments
    assert april.pk == entry.payment_id


# --- Searches ---------------------------------------------------------------------------------------------------------
def hits(term):
    return {(hit.kind, hit.name): hit.words for hit in search(term, lambda _permission: True)}


def test_what_waits_is_found_by_its_id_its_key_and_its_amount():
    entry = held("6.123457")
    words = f"{entry.agent_id} asked to pay {entry.service} 6.123457 USDC; waits for approval"

    for term in (entry.payment_id, entry.idempotency_key, "6.123457 USDC"):
        assert hits(term)["Payment to approve", entry.payment_id] == words
    assert hits(entry.pk)["Decision", entry.pk].endswith("held for approval: Above what is paid without approval")


def test_once_it_is_approved_it_is_found_as_a_payment_by_the_key_that_asked():
    entry = held("6.123457")
    end(entry)

    for term in (entry.payment_id, entry.idempotency_key, "6.123457 USDC"):
        kinds = {kind for kind, name in hits(term) if name == entry.payment_id}
        assert kinds == {"Payment"}


# --- Told -------------------------------------------------------------------------------------------------------------
def test_finance_is_told_what_waits_how_much_and_until_when():
    first, second = held(), held("7")
    until = f"{hold_of(first).expires_at:%Y-%m-%d %H:%M} UTC"

    (finding,) = find_holds()

    assert finding.says == f"2 payments wait for approval: 13.00 USDC; the first expires at {until}."
    assert finding.page.url == "/console/ledger/hold/?state=waits"
    assert finding.since == first.created_at
    assert finding in find_work()
    say(second)
    (finding,) = find_holds()
    assert finding.says == f"1 payment waits for approval: 6.00 USDC; it expires at {until}."
    assert finding.page.url == f"/console/ledger/hold/{first.payment_id.replace('_', '_5F')}/change/"


def test_each_further_one_is_told_and_what_waits_for_nobody_is_not():
    entry = held()
    look(utc_now())
    alarm = Alarm.objects.get(kind="holds", is_over=False)
    held()
    look(utc_now() + HOUR)
    alarm.refresh_from_db()
    assert alarm.told_count == 2

    pause_agent(entry.agent_id, by="kim")
    assert [finding.count for finding in find_holds()] == [1]


def test_what_was_approved_and_cannot_be_signed_is_told_after_a_minute_until_it_is_signed():
    entry = held()
    switch_signer(is_signing=False, by="ann")
    say(entry)
    assert finish_holds(environment_at()) == 0
    assert (list(find_holds()), list(find_unsigned_holds())) == ([], [])
    answered = utc_now() - timedelta(minutes=1)
    Hold.objects.update(answered_at=answered)

    (finding,) = find_unsigned_holds()

    until = f"{hold_of(entry).expires_at:%Y-%m-%d %H:%M} UTC"
    assert finding.says == (f"1 payment was approved, and cannot be signed now: 6.00 USDC; it expires at {until}.")
    assert (finding.since, finding.kind.told) == (answered, ("finance", "operations"))
    assert finding.page.url == f"/console/ledger/hold/{entry.payment_id.replace('_', '_5F')}/change/"
    assert finding in find_work()
    switch_signer(is_signing=True, by="ann")
    finish(entry)
    assert list(find_unsigned_holds()) == []

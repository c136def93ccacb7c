"""Payments that wait for a person: held by a rule, counted at once, and decided once more when they have answered."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from foundation.kernel.errors import BudgetExceeded, ContractError
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement, Hold, HoldAnswer, LogEntry, Result
from payments.holding.states import find_held
from payments.models import Payment
from policy.operations import pause_agent
from services.models import WebhookEvent
from tests.support.answers import count_rows
from tests.support.clocks import problems_of
from tests.support.evaluations import evaluate_or_refuse
from tests.support.factories import decide, make_agent, make_service
from tests.support.holds import REASON, approve, asks_above, decline, environment_at, finish, hold_of, say
from tests.support.payment_requests import make_request

pytestmark = [pytest.mark.django_db, pytest.mark.rolled_back]


@pytest.mark.parametrize(("amount", "result"), [("5", Result.APPROVED), ("5.000001", Result.HELD)])
def test_what_is_above_the_threshold_is_held_and_what_reaches_it_is_paid(amount, result):
    entry = decide(asks_above(), make_service(), amount)

    assert entry.result == result
    assert Payment.objects.filter(entry=entry).exists() == (result == Result.APPROVED)


@pytest.mark.parametrize(("amount", "result"), [("2", Result.APPROVED), ("2.000001", Result.HELD)])
def test_what_reaches_the_threshold_of_a_day_is_paid_and_what_lifts_it_above_is_held(amount, result):
    agent, service = make_agent(approval_above_day=Decimal(5)), make_service()
    assert decide(agent, service, "3").result == Result.APPROVED

    entry = decide(agent, service, amount)

    assert entry.result == result
    assert entry.rule == ("under_max_payment" if result == Result.APPROVED else "under_daily_approval_limit")


def test_a_threshold_of_nothing_holds_everything():
    assert decide(asks_above("0"), make_service(), "0.01").result == Result.HELD


def test_an_agent_whose_policy_asks_nobody_is_never_held():
    assert decide(make_agent(), make_service(), "10").result == Result.APPROVED
    assert not Hold.objects.exists()


def test_a_held_payment_is_signed_by_nobody_and_moves_nothing():
    agent, service = asks_above(), make_service(webhook_url="https://payee.example/hook")

    entry = decide(agent, service, "6")

    assert (entry.rule, entry.tx) == ("under_approval_limit", None)
    assert not BalanceMovement.objects.filter(agent=agent, kind="payment").exists()
    assert not WebhookEvent.objects.filter(service=service).exists()
    assert problems_of(agent) == []


def test_a_hold_says_until_when_it_waits_and_why():
    held = decide(asks_above(approval_hours=3), make_service(), "6")

    hold = hold_of(held)
    assert hold.expires_at - hold.created_at == timedelta(hours=3)
    assert held.explanation["message"] == "A person has to approve a payment above 5.00 USDC."
    assert (held.explanation["limit"], held.explanation["requested"]) == ("5.00", "6.00")


def test_to_split_a_payment_does_not_help():
    agent, service = make_agent(approval_above_day=Decimal(5)), make_service()
    assert decide(agent, service, "3").result == Result.APPROVED

    first = decide(agent, service, "2.000001")
    # What is held counts: the next one is held, too.
    assert decide(agent, service, "0.5").result == Result.HELD

    decline(first)
    assert decide(agent, service, "1.5").result == Result.APPROVED


def test_the_first_payment_to_each_payee_is_held_until_one_was_paid():
    agent, service, other = make_agent(approval_for_first=True), make_service(), make_service()
    first = decide(agent, service)
    assert first.rule == "payee_paid_before"
    assert decide(agent, service).result == Result.HELD

    approve(first)

    assert decide(agent, service).result == Result.APPROVED
    assert decide(agent, other).result == Result.HELD


_REFUSED: dict[str, dict[str, Any]] = {
    "balance_covers_payment": {"balance": "6.99"},
    "under_daily_limit": {"daily_limit": "6.99"},
    "under_weekly_limit": {"weekly_limit": "6.99"},
    "under_max_payment": {"max_per_payment": "6.99"},
    "under_total_limit": {"total_limit": Decimal("6.99")},
    "under_hourly_count": {"payments_per_hour": 0},
    "under_payee_daily_limit": {"payee_daily_limit": Decimal("6.99")},
    "service_approved": {"services": ["another"]},
    "within_dates": {"allowed_until": utc_now() - timedelta(minutes=1)},
}


@pytest.mark.parametrize("rule", _REFUSED)
def test_what_any_other_rule_refuses_is_refused_and_not_held(rule):
    agent = make_agent(
        approval_above=Decimal(1), approval_above_day=Decimal(1), approval_for_first=True, **_REFUSED[rule]
    )

    with pytest.raises(ContractError) as refused:
        decide(agent, make_service(), "7")

    assert refused.value.details["rule"] == rule
    assert not Hold.objects.filter(agent=agent).exists()


def test_a_paused_agent_holds_nothing():
    agent = asks_above()
    pause_agent(agent.id, by="ann")

    with pytest.raises(ContractError):
        decide(agent, make_service(), "6")
    assert not Hold.objects.filter(agent=agent).exists()


def test_what_is_approved_is_paid_with_the_id_that_it_had():
    agent, service = asks_above(), make_service()
    held = decide(agent, service, "6")

    final = approve(held)

    assert (final.result, final.payment_id, final.idempotency_key) == (Result.APPROVED, held.payment_id, None)
    payment = Payment.objects.get()
    assert (payment.id, payment.created_at, payment.decided_at) == (held.payment_id, held.created_at, final.created_at)
    told = {name: final.explanation[name] for name in ("heldBy", "answer", "answeredBy", "answerReason")}
    assert told == {"heldBy": held.id, "answer": "approve", "answeredBy": "fiona", "answerReason": REASON}
    assert find_held(str(held.payment_id)) is None
    assert problems_of(agent) == []


def test_it_counts_from_its_approval_on_not_from_when_it_was_asked_for():
    began = utc_now() - timedelta(days=3)
    agent, service = asks_above(daily_limit="10"), make_service()
    held = decide(agent, service, "9", at=began)
    approve(held, began + timedelta(hours=23))

    with pytest.raises(BudgetExceeded) as refused:
        decide(agent, service, "2", at=began + timedelta(hours=46))
    assert refused.value.details["rule"] == "under_daily_limit"
    assert decide(agent, service, "2", at=began + timedelta(hours=47, seconds=1)).result == Result.APPROVED


def test_nothing_ends_a_hold_that_nobody_has_answered_and_that_has_not_expired():
    held = decide(asks_above(), make_service(), "6")

    assert finish(held) is None
    assert hold_of(held).ended_at is None


def test_a_hold_ends_once():
    agent, service = asks_above(), make_service()
    held = decide(agent, service, "6")
    approve(held)

    assert finish(held) is None
    assert LogEntry.objects.filter(agent=agent).count() == 2


def test_an_evaluation_says_held_and_writes_nothing():
    agent, service = asks_above(), make_service()
    decide(agent, service, "6")
    before = (count_rows(), Hold.objects.count())

    evaluated = evaluate_or_refuse(make_request(agent, service, "7"), environment_at())

    assert not isinstance(evaluated, ContractError)
    assert (evaluated.decision.is_held, evaluated.decision.rule.name) == (True, "under_approval_limit")
    assert evaluated.refusal is None
    assert evaluated.fee is not None
    assert (count_rows(), Hold.objects.count()) == before


def test_an_evaluation_counts_what_is_held():
    agent, service = asks_above(balance="10"), make_service()
    decide(agent, service, "6")

    evaluated = evaluate_or_refuse(make_request(agent, service, "5"), environment_at())

    assert not isinstance(evaluated, ContractError)
    assert (evaluated.decision.is_refused, evaluated.decision.rule.name) == (True, "balance_covers_payment")
    assert (evaluated.facts.balance, evaluated.facts.spent_today) == (Decimal(4), Decimal(6))


def test_what_was_declined_has_no_payment_and_its_money_is_free_again():
    agent, service = asks_above(balance="10"), make_service()
    held = decide(agent, service, "6")
    say(held, HoldAnswer.DECLINE)
    with pytest.raises(ContractError):  # until the worker has ended it
        decide(agent, service, "5")

    final = finish(held)

    assert final is not None
    assert (final.result, final.payment_id, final.tx) == (Result.BLOCKED, None, None)
    assert decide(agent, service, "5").result == Result.APPROVED
    assert problems_of(agent) == []

"""Payments that wait for a person: held by a rule, counted at once, and decided again when somebody has answered."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from foundation.kernel.errors import (
    BudgetExceeded,
)
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement, Hold, HoldAnswer, Result
from payments.environment import payment_environment
from payments.holding.answering import answer_hold
from payments.holding.finishing import finish_hold
from payments.models import Payment
from payments.reconciling.verification import Progress, verify_agent
from tests.support.factories import decide, make_agent, make_service

pytestmark = [pytest.mark.django_db, pytest.mark.rolled_back]


def environment(now=None):
    return replace(payment_environment(), wake=lambda _chain: None, now=now)


def asks_above(amount="5", **more):
    return make_agent(approval_above=Decimal(amount), **more)


def approve(entry, **options):
    answer_hold(entry.payment_id, HoldAnswer.APPROVE, by="fiona", reason="It is needed.")
    return finish_hold(entry.payment_id, environment(**options))


def problems(agent):
    return [one.problem for one in verify_agent(agent.id, Progress())]


@pytest.mark.parametrize(("amount", "result"), [("5", Result.APPROVED), ("5.000001", Result.HELD)])
def test_what_is_above_the_threshold_is_held_and_what_reaches_it_is_paid(amount, result):
    entry = decide(asks_above(), make_service(), amount)

    assert entry.result == result
    assert Payment.objects.filter(entry=entry).exists() == (result == Result.APPROVED)


def test_a_held_payment_is_signed_by_nobody_and_moves_nothing():
    agent = asks_above()

    entry = decide(agent, make_service(), "6")

    assert (entry.rule, entry.tx) == ("under_approval_limit", None)
    assert not BalanceMovement.objects.filter(agent=agent, kind="payment").exists()
    assert problems(agent) == []


def test_to_split_a_payment_does_not_help():
    agent, service = make_agent(approval_above_day=Decimal(5)), make_service()
    assert decide(agent, service, "3").result == Result.APPROVED

    assert decide(agent, service, "2.000001").rule == "under_daily_approval_limit"
    # What is held counts: the next one is held, too, whatever becomes of the first.
    assert decide(agent, service, "0.5").result == Result.HELD


def test_the_first_payment_to_each_payee_is_held_until_one_was_paid():
    agent, service, other = make_agent(approval_for_first=True), make_service(), make_service()
    first = decide(agent, service)
    assert first.rule == "payee_paid_before"
    assert decide(agent, service).result == Result.HELD

    approve(first)

    assert decide(agent, service).result == Result.APPROVED
    assert decide(agent, other).result == Result.HELD


def test_what_is_held_counts_in_the_balance_and_in_every_window():
    agent, service = asks_above(balance="20", daily_limit="18"), make_service()
    decide(agent, service, "9")
    decide(agent, service, "8")

    with pytest.raises(BudgetExceeded) as refused:
        decide(agent, service, "1.01")
    assert refused.value.details["rule"] == "under_daily_limit"
    assert refused.value.details["allowedAt"] is None


def test_what_is_approved_is_paid_with_the_id_that_it_had():
    agent, service = asks_above(), make_service()
    held = decide(agent, service, "6")

    final = approve(held)

    assert (final.result, final.payment_id, final.idempotency_key) == (Result.APPROVED, held.payment_id, None)
    payment = Payment.objects.get()
    assert (payment.id, payment.created_at, payment.decided_at) == (held.payment_id, held.created_at, final.created_at)
    assert final.explanation["heldBy"] == held.id
    assert (final.explanation["answeredBy"], final.explanation["answerReason"]) == ("fiona", "It is needed.")
    assert problems(agent) == []


def test_it_counts_from_its_approval_on_not_from_when_it_was_asked_for():
    began = utc_now() - timedelta(days=3)
    agent, service = asks_above(daily_limit="10"), make_service()
    held = decide(agent, service, "9", at=began)
    answer_hold_at(held, began + timedelta(hours=23))
    finish_hold(str(held.payment_id), environment(began + timedelta(hours=23)))

    with pytest.raises(BudgetExceeded) as refused:
        decide(agent, service, "2", at=began + timedelta(hours=46))
    assert refused.value.details["rule"] == "under_daily_limit"
    decide(agent, service, "2", at=began + timedelta(hours=47, seconds=1))


def answer_hold_at(held, at, answer=HoldAnswer.APPROVE):
    Hold.objects.filter(pk=held.payment_id).update(
        answer=answer, answered_by="fiona", answer_reason="A reason", answered_at=at
    )

"""How a hold ends: answered, expired, paused or revoked; and that what is approved is judged again."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from foundation.kernel.errors import AgentPaused, BudgetExceeded, PolicySignerUnavailable, ServiceNotApproved
from foundation.kernel.times import utc_now
from ledger.models import HoldAnswer, LogEntry, Result
from payments.holding.finishing import finish_holds
from payments.models import Payment
from payments.settling.chain_switch import start_signing_on, stop_signing_on
from policy.key_operations import create_api_key, revoke_api_key
from policy.models import Agent
from policy.more_limits import MoreLimits
from policy.operations import pause_agent, resume_agent, set_policy, switch_signer
from services.operations import disable_service
from tests.support.clocks import problems_of
from tests.support.factories import decide, make_service
from tests.support.holds import approve, asks_above, decline, environment_at, error_of, finish, hold_of, say
from tests.support.local_ids import LOCALNET

pytestmark = [pytest.mark.django_db, pytest.mark.rolled_back]
MS = timedelta(milliseconds=1)
HOUR = timedelta(hours=1)
WHY: dict[str, Any] = {"by": "ann", "reason": "A reason"}


@pytest.fixture
def agent():
    return asks_above(balance="10")


@pytest.fixture
def held(agent):
    return decide(agent, make_service(), "6", at=utc_now() - timedelta(days=2))


@pytest.fixture
def fresh(agent):
    return decide(agent, make_service(), "6")


def assert_given_back(agent: Agent, final: LogEntry | None, message: str) -> None:
    """Assert that a person's rule has refused a payment, with this sentence, and that its room is free again."""
    error = error_of(final)
    assert (error.code, error.retry) == ("approval_declined", "new_key")
    assert (error.details["rule"], error.message) == ("approved_by_person", message)
    assert not Payment.objects.filter(agent=agent).exists()
    assert decide(agent, make_service(), "5", at=final.created_at if final else None).result == Result.APPROVED
    assert problems_of(agent) == []


def test_declined(agent, fresh):
    final = decline(fresh)

    assert_given_back(agent, final, "A person has declined this payment: It is needed.")
    details = error_of(final).details
    assert (details["heldBy"], details["answerReason"]) == (fresh.id, "It is needed.")
    assert not {"answeredBy", "answer"} & details.keys()


def test_it_expires_at_that_very_moment_and_not_before(agent, held):
    expires_at = hold_of(held).expires_at
    assert finish(held, expires_at - MS) is None

    final = finish(held, expires_at)

    assert_given_back(agent, final, "Nobody has approved this payment within 24 hours.")
    assert not {"answerReason"} & error_of(final).details.keys()


def test_the_sentence_knows_a_single_hour():
    agent = asks_above(approval_hours=1)
    held = decide(agent, make_service(), "6", at=utc_now() - HOUR * 2)

    assert error_of(finish(held, held.created_at + HOUR)).message == "Nobody has approved this payment within 1 hour."


def test_paused_while_it_waited(agent, fresh):
    pause_agent(agent.id, by="ann")

    final = finish(fresh)

    resume_agent(agent.id, by="ann")
    assert_given_back(agent, final, "The agent was paused while this payment waited for approval.")


@pytest.mark.parametrize("answer", [None, *HoldAnswer])
def test_its_api_key_was_revoked_whatever_anybody_has_answered(agent, fresh, answer):
    key, _ = create_api_key(agent_id=agent.id, scopes=None, by="test")
    hold = hold_of(fresh)
    hold.api_key = key.id
    hold.save()
    if answer is not None:
        say(fresh, answer)
    revoke_api_key(key.id, by="test")

    sentence = "The API key that asked for this payment was revoked while it waited for approval."
    assert_given_back(agent, finish(fresh), sentence)


def test_another_key_that_was_revoked_ends_nothing(agent, fresh):
    key, _ = create_api_key(agent_id=agent.id, scopes=None, by="test")
    revoke_api_key(key.id, by="test")

    assert finish(fresh) is None


# --- What is approved is judged again ---------------------------------------------------------------------------------
def test_an_agent_that_was_paused_after_its_payment_was_approved_is_refused_as_paused(agent, fresh):
    say(fresh)
    pause_agent(agent.id, by="ann")

    error = error_of(finish(fresh))

    assert isinstance(error, AgentPaused)
    assert error.details["rule"] == "agent_active"
    assert problems_of(agent) == []


@pytest.mark.parametrize(
    ("rule", "lowered"),
    [
        ("under_max_payment", {"max_per_payment": Decimal("5.99")}),
        ("under_daily_limit", {"daily_limit": Decimal("5.99")}),
        ("under_weekly_limit", {"weekly_limit": Decimal("5.99")}),
    ],
)
def test_a_policy_that_was_lowered_meanwhile_refuses_it(agent, fresh, rule, lowered):
    set_policy(agent.id, change=lambda limits: replace(limits, **lowered), by="ann")

    error = error_of(approve(fresh))

    assert isinstance(error, BudgetExceeded)
    assert (error.details["rule"], error.details["policyRevision"]) == (rule, "polrev_2")
    assert problems_of(agent) == []
    assert not Payment.objects.filter(agent=agent).exists()


def test_a_threshold_that_was_lowered_meanwhile_does_not_hold_it_a_second_time(agent, fresh):
    stricter = MoreLimits(approval_above=Decimal(1), approval_above_day=Decimal(1), approval_for_first=True)
    set_policy(agent.id, change=lambda limits: replace(limits, more=stricter), by="ann")

    assert approve(fresh).result == Result.APPROVED
    assert problems_of(agent) == []


def test_a_payee_that_was_disabled_meanwhile_is_not_paid(agent, fresh):
    disable_service(fresh.service, **WHY)

    error = error_of(approve(fresh))

    assert isinstance(error, ServiceNotApproved)
    assert problems_of(agent) == []


# --- What cannot be signed waits, and is signed later; not beyond its expiry ------------------------------------------
def stop_signer() -> None:
    switch_signer(is_signing=False, by="ann")


def start_signer() -> None:
    switch_signer(is_signing=True, by="ann")


def stop_localnet() -> None:
    stop_signing_on(LOCALNET, **WHY)


def start_localnet() -> None:
    start_signing_on(LOCALNET, **WHY)


STOPS = pytest.mark.parametrize(
    ("stop", "start"), [(stop_signer, start_signer), (stop_localnet, start_localnet)], ids=["signer", "chain"]
)


@STOPS
def test_what_was_approved_while_nothing_is_signed_is_signed_later(agent, held, stop, start):
    expires_at = hold_of(held).expires_at
    say(held, at=expires_at - MS)
    stop()
    with pytest.raises(PolicySignerUnavailable):
        finish(held, expires_at - MS)
    assert hold_of(held).ended_at is None
    assert LogEntry.objects.filter(agent=agent).count() == 1

    start()

    final = finish(held, expires_at - MS)
    assert final is not None
    assert final.result == Result.APPROVED
    assert problems_of(agent) == []


@STOPS
def test_what_cannot_be_signed_before_it_expires_is_refused(agent, held, stop, start):
    expires_at = hold_of(held).expires_at
    say(held, at=expires_at - MS)
    stop()

    final = finish(held, expires_at)

    start()
    assert_given_back(agent, final, "It was approved, but could not be signed before it expired.")


def test_what_was_approved_in_time_is_paid_if_the_worker_comes_a_little_later(agent, held):
    expires_at = hold_of(held).expires_at
    say(held, at=expires_at - MS)

    final = finish(held, expires_at + timedelta(seconds=1))

    assert final is not None
    assert final.result == Result.APPROVED


def test_what_keeps_one_payment_keeps_no_other():
    agents = [asks_above(), asks_above()]
    kept, other = (decide(agent, make_service(), "6") for agent in agents)
    for held in (kept, other):
        say(held)
    # Nothing of this agent is decided before its clock is repaired.
    Agent.objects.filter(pk=agents[0].pk).update(last_entry_at=utc_now() + HOUR)

    assert finish_holds(environment_at()) == 1
    assert (hold_of(kept).ended_at, hold_of(other).ended_at is None) == (None, False)


def test_a_payee_that_is_not_served_any_more_is_not_paid(agent, fresh):
    say(fresh)

    error = error_of(finish(fresh, chains={}))

    assert error.details["rule"] == "service_payable"
    assert problems_of(agent) == []

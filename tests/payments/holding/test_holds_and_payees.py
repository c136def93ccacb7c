"""A person approves a payment to an address: no other is paid, and what the escrow has paid is not paid again."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection

from foundation.kernel.assets import Asset
from foundation.kernel.errors import PolicySignerUnavailable
from foundation.kernel.times import utc_now
from ledger.models import Hold, Result
from ledger.operations import adjust_balance
from ledger.queries import find_budget
from ledger.usage import find_usage
from payments.deciding.reading import HeldTooLong
from payments.holding.finishing import finish_holds
from payments.models import Outflow, Payment
from policy.parents import lock_with_ancestors
from services.operations import Registration, approve_service, register_service
from tests.support.clocks import problems_of
from tests.support.factories import decide, make_service, new_address, new_name
from tests.support.holds import approve, asks_above, environment_at, error_of, finish, say
from tests.support.local_ids import LOCALNET

pytestmark = [pytest.mark.django_db, pytest.mark.rolled_back]
MOVED = "The payee was registered at another address while this payment waited for approval: ask again."


def move(service):
    """Register a payee at another address, and approve that."""
    to = f"{service.chain}:{new_address()}"
    register_service(Registration(id=service.id, name="A payee", recipient=to, asset=service.asset, webhook_url=None))
    approve_service(service.id, by="fiona")


def test_another_address_than_the_one_that_was_held_is_not_paid():
    agent, service = asks_above(), make_service()
    held = decide(agent, service, "6")
    move(service)

    ended = approve(held)

    refused = error_of(ended)
    assert (ended.rule, refused.code, refused.message) == ("approved_by_person", "approval_declined", MOVED)
    assert not Payment.objects.filter(agent=agent).exists()
    assert problems_of(agent) == []


def test_the_same_address_registered_anew_and_approved_is_paid():
    agent, service = asks_above(), make_service()
    held = decide(agent, service, "6")
    to = f"{service.chain}:{service.address}"
    register_service(Registration(id=service.id, name="Renamed", recipient=to, asset=Asset.USDC, webhook_url=None))

    assert approve(held).result == Result.APPROVED


def test_what_the_escrow_has_paid_by_this_payments_id_is_not_paid_again():
    """After a backup was restored, a payment may wait that was paid since: on Solana the memo has its id."""
    agent = asks_above()
    held = decide(agent, make_service(), "6")
    Outflow.objects.create(
        chain=LOCALNET, tx=new_name("tx"), log_index=0, block_number=1, amount=0, escrow_id=str(held.payment_id),
        why="It is neither a payment nor a withdrawal of ours.", found_at=utc_now(),
    )  # fmt: skip
    say(held)

    with pytest.raises(PolicySignerUnavailable, match="used up this Idempotency-Key"):
        finish(held)


def test_a_balance_below_what_is_held_is_shown_as_nothing():
    agent = asks_above(balance="20")
    decide(agent, make_service(), "8")
    decide(agent, make_service(), "7")
    adjust_balance(agent.id, amount=Decimal(-10), by="fiona", reason="Ticket 7", chain=LOCALNET)

    budget = find_budget(agent.id)

    assert budget is not None
    assert (budget.balance, budget.held[0]) == (Decimal(0), Decimal(15))
    assert [one.balance for one in find_usage([agent.id])] == [0]


def test_the_end_of_a_hold_is_no_refusal_that_an_agent_asked_for():
    agent, service = asks_above(), make_service()
    began = utc_now() - timedelta(days=2)
    held = [decide(agent, service, "6", at=began + timedelta(seconds=second)) for second in range(3)]
    for second, one in enumerate(held):
        finish(one, began + timedelta(hours=25, seconds=second))

    with connection.cursor() as cursor:
        at = began + timedelta(hours=25, seconds=3)
        cursor.execute("SELECT payments_refusing_since(%s, %s, 1, 1)", [agent.id, at])
        assert cursor.fetchone() == ([None],)


def test_an_agent_that_somebody_holds_keeps_only_its_own_holds_waiting(monkeypatch):
    agents = [asks_above() for _ in range(2)]
    holds = [decide(agent, make_service(), "6") for agent in agents]
    for held in holds:
        say(held)

    def held_by_somebody(agent_id):
        if agent_id == agents[0].id:
            raise HeldTooLong
        return lock_with_ancestors(agent_id)

    monkeypatch.setattr("payments.holding.finishing.lock_with_ancestors", held_by_somebody)

    assert finish_holds(environment_at()) == 1
    assert [Hold.objects.get(entry=held).ended_at is None for held in holds] == [True, False]


def test_what_cannot_be_decided_for_an_unknown_reason_is_told_once_a_minute_and_keeps_no_other(monkeypatch, caplog):
    agents = [asks_above() for _ in range(2)]
    holds = [decide(agent, make_service(), "6") for agent in agents]
    for held in holds:
        say(held)

    def break_for_one(agent_id):
        if agent_id == agents[0].id:
            raise RuntimeError("Nobody knows why.")
        return lock_with_ancestors(agent_id)

    monkeypatch.setattr("payments.holding.finishing.lock_with_ancestors", break_for_one)

    assert [finish_holds(environment_at()) for _ in range(3)] == [1, 0, 0]
    told = [one for one in caplog.records if "could not be decided" in one.getMessage()]
    assert [(one.levelname, one.exc_info is not None) for one in told] == [("ERROR", True)]

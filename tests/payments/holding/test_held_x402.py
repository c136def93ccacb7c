"""A payment that its payee takes itself (x402), held first."""

import hashlib
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chains.port import AuthorizationTerms
from foundation.kernel.errors import InvalidRequest, PolicySignerUnavailable
from ledger.models import Hold, LogEntry, Result
from payments.deciding.answers import answer
from payments.deciding.operations import request_payment
from payments.deciding.requests import Demand, PaymentRequest
from payments.holding.finishing import finish_hold
from payments.models import Payment, Settlement
from policy.models import Agent
from tests.support.clocks import problems_of
from tests.support.fake_chain import make_fake_chain
from tests.support.holds import asks_above, error_of, hold_of, say
from tests.support.payment_requests import environment_of, make_request, make_service_on

pytestmark = [pytest.mark.django_db, pytest.mark.rolled_back]
TOKEN = "0x" + "22" * 20
VALID_S = 60
NO = "The EIP-712 domain of USDC has another name or version than extra says."


class Shop:
    """An agent whose larger payments a person approves, and a payee that takes its money itself."""

    def __init__(self) -> None:
        self.chain = make_fake_chain()
        self.service = make_service_on(self.chain)
        self.agent: Agent = asks_above()

    def request(self, amount: str = "6.00") -> PaymentRequest:
        asked = make_request(self.agent, self.service, amount)
        requirements: dict[str, Any] = {
            "network": self.chain.name, "payTo": self.service.address, "asset": TOKEN, "maxTimeoutSeconds": VALID_S,
            "extra": {"name": "USD Coin", "version": "2"},
        }  # fmt: skip
        assert Demand.of(requirements).terms == AuthorizationTerms(TOKEN, "USD Coin", "2", VALID_S)
        fingerprint = hashlib.sha256(b"x402" + asked.fingerprint).digest()
        return replace(asked, demand=Demand.of(requirements), fingerprint=fingerprint)

    def ask(self, amount: str = "6.00") -> LogEntry:
        return request_payment(self.request(amount), environment_of(self.chain)).entry

    def finish(self, held: LogEntry) -> LogEntry | None:
        return finish_hold(str(held.payment_id), environment_of(self.chain))


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_what_is_held_and_approved_gives_the_payload_for_the_payee_from_that_moment_on(shop):
    held = shop.ask()
    assert held.result == Result.HELD
    assert "paymentPayload" not in answer(held)
    say(held)

    final = shop.finish(held)

    assert final is not None
    payment = Payment.objects.get(pk=held.payment_id)
    said = answer(final)
    assert (said["id"], said["tx"], said["status"]) == (held.payment_id, None, "approved")
    authorization = said["paymentPayload"]["payload"]["authorization"]
    assert authorization["nonce"] == payment.escrow_id
    assert said["paymentPayload"]["accepted"] == shop.request().demand.requirements
    assert payment.authorized_until is not None
    assert payment.authorized_until > final.created_at + timedelta(seconds=VALID_S - 2)
    assert not Settlement.objects.filter(payments=payment).exists()
    assert problems_of(shop.agent) == []


def test_what_the_payee_could_not_take_is_refused_before_it_is_held(shop):
    shop.chain.demand_objection = NO

    with pytest.raises(InvalidRequest) as refused:
        shop.ask()

    assert refused.value.details["fields"][0]["message"] == NO
    assert not LogEntry.objects.filter(agent=shop.agent).exists()


def test_what_the_payee_cannot_take_any_more_is_refused_although_it_was_approved(shop):
    held = shop.ask()
    say(held)
    shop.chain.demand_objection = NO

    error = error_of(shop.finish(held))

    assert (error.details["rule"], error.message) == (
        "approved_by_person",
        f"It was approved, but its payee cannot take it: {NO}",
    )
    assert hold_of(held).ended_at is not None
    assert problems_of(shop.agent) == []


def test_while_the_chain_cannot_tell_it_is_held_and_waits(shop):
    held = shop.ask()
    say(held)
    shop.chain.is_unprepared = True
    with pytest.raises(PolicySignerUnavailable):
        shop.finish(held)
    assert Hold.objects.filter(agent=shop.agent, ended_at=None).exists()

    shop.chain.is_unprepared = False

    final = shop.finish(held)
    assert final is not None
    assert final.result == Result.APPROVED

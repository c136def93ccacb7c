"""Payments that a person has to approve, as models see them: told to wait, asked for once, and not asked for again."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from allowance_client import AsyncAllowance
from allowance_mcp.arguments import Purchase
from allowance_mcp.intents import Intents
from allowance_mcp.outcomes import AlreadyPaid, Declined, Waiting
from django.db import connection

from foundation.kernel.times import utc_now
from ledger.models import Hold
from policy.operations import set_policy
from tests.clients.mcp.conftest import Cast
from tests.clients.mcp.talking import Model, Said, tell, tell_at_once
from tests.clients.mcp.test_intents import raise_limits
from tests.support.answered_holds import approve, decline, expire
from tests.support.localnets import EVM

pytestmark = pytest.mark.long(40)
WAIT, NO_OTHER_WAY = "get_payment with its id and wait_s=30", "in other words, in another or in smaller amounts"


@pytest.fixture
def cast(committed, servers):
    EVM.observe()
    return Cast.make(servers.urls[0], approval_above=Decimal("0.25"))


def holds(cast):
    return [*Hold.objects.filter(agent=cast.agent).order_by("id").values_list("id", flat=True)]


def approve_in_a_thread(payment_id):
    try:
        approve(payment_id)
    finally:
        connection.close()


def assert_declined(said, payment_id):
    assert (said.status, said.is_error, said.content["code"]) == ("refused", True, "approval_declined")
    assert said.payment_id == payment_id
    assert "Do not call again" in said.content["what_to_do"]
    assert NO_OTHER_WAY in said.content["what_to_do"]


def test_a_model_that_asks_in_many_words_is_told_to_wait_and_a_person_is_asked_once(cast, mcp):
    async def story(model: Model) -> list[Said]:
        again = [await model.pay(cast.service.id, "1.00", f"In other words {number}") for number in range(5)]
        return [*again, await model.pay(cast.service.id, after_payment=again[0].payment_id)]

    heard = tell(cast.http(mcp), story)

    (held,) = holds(cast)
    for said in heard:
        assert (said.status, said.is_error, said.payment_id) == ("waiting_for_approval", False, held)
        assert said.content["payment"]["status"] == "pending_approval"
        assert said.content["payment"]["approval_expires_at"]
        assert said.content["what_to_do"].startswith("Nothing is paid yet")
        assert WAIT in said.content["what_to_do"]
        assert NO_OTHER_WAY in said.content["what_to_do"]
    assert heard[0].content["payment"]["message"] == "A person has to approve a payment above 0.25 USDC."
    assert (cast.payments(), cast.count_entries()) == ([], 1)


def test_calls_at_once_in_two_processes_ask_a_person_once(cast, mcp):
    async def story(models: list[Model]) -> list[Said]:
        return await asyncio.gather(*(model.pay(cast.service.id, "1", f"Reason {n}") for n, model in enumerate(models)))

    heard = tell_at_once([cast.stdio, cast.http(mcp), cast.http(mcp)], story)

    assert {(one.status, one.payment_id) for one in heard} == {("waiting_for_approval", *holds(cast))}


def test_a_model_waits_for_the_person_and_then_is_told_that_it_is_paid(cast, mcp):
    async def story(model: Model) -> tuple[Said, Said, Said, Said]:
        held = await model.pay(cast.service.id)
        soon = await model.call("get_payment", payment_id=held.payment_id, wait_s=1)
        waiting = asyncio.ensure_future(model.call("get_payment", payment_id=held.payment_id, wait_s=30))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(approve_in_a_thread, held.payment_id)
        return held, soon, await waiting, await model.pay(cast.service.id)

    held, soon, read, again = tell(cast.http(mcp), story)

    assert soon.content["payment"]["status"] == "pending_approval"
    assert WAIT in soon.content["what_to_do"]
    assert (read.payment_id, read.content["payment"]["status"]) == (held.payment_id, "approved")
    assert "Do not pay again" in read.content["what_to_do"]
    assert (again.status, again.payment_id) == ("already_paid", held.payment_id)
    assert cast.payments() == holds(cast) == [held.payment_id]


@pytest.mark.parametrize(("end", "status"), [(decline, "declined"), (expire, "expired")])
def test_a_model_that_repeats_what_was_not_approved_is_told_why_and_nobody_is_asked_again(cast, mcp, end, status):
    held = tell(cast.http(mcp), lambda model: model.pay(cast.service.id))
    entry = end(held.payment_id)

    async def story(model: Model) -> tuple[Said, list[Said]]:
        read = await model.call("get_payment", payment_id=held.payment_id, wait_s=30)
        return read, [await model.pay(cast.service.id, reason=f"In other words {number}") for number in range(3)]

    read, heard = tell(cast.http(mcp), story)

    assert (read.content["payment"]["status"], read.is_error) == (status, False)
    assert read.content["payment"]["message"] == entry.explanation["message"]
    for said in heard:
        assert_declined(said, held.payment_id)
        assert said.content["message"] == entry.explanation["message"]
    assert (holds(cast), cast.count_entries()) == ([held.payment_id], 2)


def test_only_who_names_what_was_declined_has_a_person_asked_again_and_once(cast, mcp):
    first = tell(cast.http(mcp), lambda model: model.pay(cast.service.id))
    decline(first.payment_id)
    told = tell(cast.http(mcp), lambda model: model.pay(cast.service.id))

    second = tell(cast.http(mcp), lambda model: model.pay(cast.service.id, after_payment=first.payment_id))
    decline(second.payment_id)
    again = tell(cast.http(mcp), lambda model: model.pay(cast.service.id, after_payment=first.payment_id))

    assert f"call again with after_payment={first.payment_id}" in told.content["what_to_do"]
    assert second.status == "waiting_for_approval"
    assert_declined(again, second.payment_id)
    assert holds(cast) == [first.payment_id, second.payment_id]


def test_a_further_purchase_that_was_declined_is_not_asked_for_again_by_the_same_call(cast, mcp):
    first = tell(cast.http(mcp), lambda model: model.pay(cast.service.id))
    approve(first.payment_id)
    second = tell(cast.http(mcp), lambda model: model.pay(cast.service.id, after_payment=first.payment_id))
    decline(second.payment_id)

    again = tell(cast.http(mcp), lambda model: model.pay(cast.service.id, after_payment=first.payment_id))

    assert_declined(again, second.payment_id)
    assert holds(cast) == [first.payment_id, second.payment_id]


def pay_at(cast, now):
    """Pay by the server's own code, with another clock."""

    async def pay():
        async with AsyncAllowance(cast.url, cast.key) as api:
            return await Intents(api, cast.agent.id, now).pay(Purchase(cast.service.id, "1", "A forecast"))

    return asyncio.run(pay())


def test_a_clock_that_is_ahead_has_nobody_asked_again(cast):
    first = pay_at(cast, utc_now)
    decline(first.payment.id)

    again = pay_at(cast, lambda: utc_now() + timedelta(days=2))

    assert isinstance(first, Waiting)
    assert isinstance(again, Declined)
    assert holds(cast) == [first.payment.id] == [again.payment.id]


def test_a_payment_that_was_approved_long_after_it_was_asked_for_is_not_repeated(cast):
    held = pay_at(cast, utc_now).payment.id
    Hold.objects.filter(pk=held).update(created_at=utc_now() - timedelta(days=3))
    approve(held)

    repeated = pay_at(cast, utc_now)

    assert isinstance(repeated, AlreadyPaid)
    assert holds(cast) == cast.payments() == [held]


def test_what_was_refused_before_and_would_be_held_now_has_a_person_asked(committed, servers, mcp):
    cast = Cast.make(servers.urls[0], max_per_payment="0.50", approval_above=Decimal("0.25"))
    refused = tell(cast.http(mcp), lambda model: model.pay(cast.service.id))
    raise_limits(cast)

    held = tell(cast.http(mcp), lambda model: model.pay(cast.service.id))

    assert (refused.status, held.status) == ("refused", "waiting_for_approval")
    assert holds(cast) == [held.payment_id]


def test_what_a_limit_refused_after_the_person_had_approved_is_refused_by_that_limit(cast, mcp):
    held = tell(cast.http(mcp), lambda model: model.pay(cast.service.id))
    set_policy(cast.agent.id, change=lambda limits: replace(limits, max_per_payment=Decimal("0.5")), by="test")
    approve(held.payment_id)

    again = tell(cast.http(mcp), lambda model: model.pay(cast.service.id))

    assert_declined(again, held.payment_id)
    assert "A single payment may not exceed 0.50 USDC." in again.content["message"]
    assert cast.payments() == []

"""Each intent is paid once: however often a model asks, in whatever words, in how many processes, and whatever dies."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from allowance_client import AsyncAllowance
from allowance_mcp.arguments import Purchase
from allowance_mcp.intents import Intents
from allowance_mcp.outcomes import AlreadyPaid, Paid

from ledger.models import LogEntry
from payments.lifecycle import PaymentStatus
from payments.models import Payment
from policy.limits import Limits
from policy.operations import pause_agent, resume_agent, set_policy
from tests.clients.mcp.conftest import Cast
from tests.clients.mcp.talking import Model, Said, tell, tell_at_once
from tests.support.factories import decide
from tests.support.localnets import EVM, SOLANA
from tests.support.made_ends import fail_unsent

pytestmark = pytest.mark.long(40)
DAY = timedelta(hours=24)


def raise_limits(cast: Cast) -> None:
    def change(limits: Limits) -> Limits:
        return replace(limits, max_per_payment=Decimal(100), daily_limit=Decimal(100))

    set_policy(cast.agent.id, change=change, by="test")


# --- Repetitions ------------------------------------------------------------------------------------------------------
def test_a_model_that_repeats_itself_twenty_times_pays_once(cast, mcp):
    async def story(model: Model) -> list[Said]:
        return [await model.pay(cast.service.id) for _ in range(20)]

    first, *others = tell(cast.http(mcp), story)

    assert first.status == "paid"
    assert {(one.status, one.payment_id) for one in others} == {("already_paid", first.payment_id)}
    assert cast.payments() == [first.payment_id]
    assert cast.count_entries() == 1


def test_a_model_that_rewords_the_reason_and_rewrites_the_amount_pays_once(cast, mcp):
    amounts = ["1", "1.0", "1.00", "01", "1.000000"]

    async def story(model: Model) -> None:
        for number, amount in enumerate(amounts):
            await model.pay(cast.service.id, amount, f"In other words {number}")

    tell(cast.http(mcp), story)

    assert len(cast.payments()) == cast.count_entries() == 1


@pytest.mark.parametrize("reasons", [["The same"], ["One way", "Another way"]])
def test_calls_at_once_in_two_processes_are_one_payment(cast, mcp, reasons):
    async def story(models: list[Model]) -> list[Said]:
        calls = [(model, number) for number in range(6) for model in models]
        return await asyncio.gather(
            *(model.pay(cast.service.id, "1", reasons[number % len(reasons)]) for model, number in calls)
        )

    heard = tell_at_once([cast.stdio, cast.stdio, cast.http(mcp)], story)

    assert {one.payment_id for one in heard} == {*cast.payments()}
    assert len(cast.payments()) == cast.count_entries() == 1
    assert {one.status for one in heard} <= {"paid", "already_paid"}


# --- A further purchase -----------------------------------------------------------------------------------------------
def test_a_further_purchase_names_the_one_before_and_is_paid_once_as_well(cast, mcp):
    async def story(model: Model) -> tuple[Said, list[Said], Said]:
        first = await model.pay(cast.service.id)
        seconds = [await model.pay(cast.service.id, after_payment=first.payment_id) for _ in range(5)]
        return first, seconds, await model.pay(cast.service.id, after_payment=seconds[0].payment_id)

    first, seconds, third = tell(cast.http(mcp), story)

    assert [one.status for one in seconds] == ["paid"] + ["already_paid"] * 4
    assert cast.payments() == [third.payment_id, seconds[0].payment_id, first.payment_id]


def test_a_payment_of_another_agent_or_of_another_purchase_is_no_predecessor(cast, mcp):
    stranger = Cast.make(cast.url)
    theirs = decide(stranger.agent, cast.service, "1").payment_id
    other = decide(cast.agent, cast.service, "2").payment_id

    async def story(model: Model) -> list[Said]:
        named = [await model.pay(cast.service.id, after_payment=one) for one in (theirs, other, "pay_" + "0" * 26)]
        paid = await model.pay(cast.service.id)
        return [*named, await model.pay(cast.service.id, after_payment=theirs), paid]

    *unpaid, misnamed, paid = tell(cast.http(mcp), story)

    assert [(one.status, "payment" in one.content) for one in unpaid] == [("nothing_paid", False)] * 3
    assert (misnamed.status, misnamed.payment_id) == ("already_paid", paid.payment_id)
    assert cast.payments() == [paid.payment_id, other]


def test_a_payment_that_failed_may_be_bought_again_without_being_named(cast, mcp):
    service = SOLANA.make_service()

    first = tell(cast.http(mcp), lambda model: model.pay(service.id))
    fail_unsent(first.payment_id)
    second = tell(cast.http(mcp), lambda model: model.pay(service.id))
    repeated = tell(cast.http(mcp), lambda model: model.pay(service.id))

    assert (second.status, repeated.status) == ("paid", "already_paid")
    assert cast.payments() == [second.payment_id, first.payment_id]


def test_a_failed_further_purchase_does_not_let_the_first_one_be_repeated(cast, mcp):
    service = SOLANA.make_service()

    async def buy_two(model: Model) -> list[str]:
        first = await model.pay(service.id)
        return [first.payment_id, (await model.pay(service.id, after_payment=first.payment_id)).payment_id]

    first, second = tell(cast.http(mcp), buy_two)
    fail_unsent(second)

    repeated = tell(cast.http(mcp), lambda model: model.pay(service.id))
    again = tell(cast.http(mcp), lambda model: model.pay(service.id, after_payment=first))

    assert (repeated.status, repeated.payment_id, again.status) == ("already_paid", first, "paid")
    assert len(cast.payments()) == 3


@contextmanager
def settled(payment_id: str | None, at: datetime) -> Iterator[None]:
    """Let a payment have been settled so long ago; its chain has still to come to that."""
    payment = Payment.objects.filter(pk=payment_id)
    payment.update(status=PaymentStatus.SETTLED, settled_at=at)
    try:
        yield
    finally:
        payment.update(status=PaymentStatus.APPROVED, settled_at=None)


@pytest.mark.parametrize(("age", "status"), [(DAY - timedelta(minutes=1), "already_paid"), (DAY, "paid")])
def test_a_payment_stands_in_the_way_for_a_day_after_it_is_settled(cast, mcp, age, status):
    now = datetime.now(UTC)
    paid = str(decide(cast.agent, cast.service, "1", at=now - 2 * DAY).payment_id)

    with settled(paid, now - age):
        assert tell(cast.http(mcp), lambda model: model.pay(cast.service.id)).status == status


def test_a_payment_that_is_not_settled_yet_stands_in_the_way_whatever_its_age(cast, mcp):
    paid = decide(cast.agent, cast.service, "1", at=datetime.now(UTC) - 2 * DAY).payment_id

    said = tell(cast.http(mcp), lambda model: model.pay(cast.service.id))

    assert (said.status, said.payment_id, cast.payments()) == ("already_paid", paid, [paid])


@pytest.mark.parametrize("off", [timedelta(days=3), -timedelta(days=3)])
def test_a_wrong_clock_lets_nobody_pay_twice(cast, off):
    wanted = Purchase(cast.service.id, "1", "A forecast")

    async def pay() -> Any:
        async with AsyncAllowance(cast.url, cast.key) as api:
            intents = Intents(api, cast.agent.id, lambda: datetime.now(UTC) + off)
            return [await intents.pay(wanted) for _ in range(3)]

    first, *others = asyncio.run(pay())

    assert isinstance(first, Paid)
    assert all(isinstance(one, AlreadyPaid) for one in others)
    assert len(cast.payments()) == 1


# --- Refusals ---------------------------------------------------------------------------------------------------------
def test_a_refusal_is_logged_once_however_often_and_in_whatever_words_it_is_asked_for(cast, mcp):
    async def story(model: Model) -> list[Said]:
        return [await model.pay(cast.service.id, "10.01", f"Wording {number % 3}") for number in range(10)]

    heard = tell(cast.http(mcp), story)

    assert {(one.status, one.content["rule"], one.content["limit"]) for one in heard} == {
        ("refused", "under_max_payment", "10.00")
    }
    assert (cast.count_entries(), cast.payments()) == (1, [])


def test_what_was_refused_is_paid_once_the_reason_is_gone_and_then_only_once(cast, mcp):
    pay = [lambda model, words=words: model.pay(cast.service.id, "10.01", words) for words in ("One", "Two", "One")]

    before = [tell(cast.http(mcp), one).status for one in pay]
    raise_limits(cast)
    after = [tell(cast.http(mcp), one).status for one in pay]

    assert before == ["refused"] * 3
    assert after == ["paid", "already_paid", "already_paid"]
    assert len(cast.payments()) == 1
    assert list(LogEntry.objects.filter(agent=cast.agent).order_by("id").values_list("result", flat=True)) == [
        "blocked", "approved",
    ]  # fmt: skip


def test_an_agent_that_is_paused_and_resumed_again_and_again_pays_once(cast, mcp):
    statuses = []
    for _ in range(3):
        pause_agent(cast.agent.id, by="test")
        statuses.append(tell(cast.http(mcp), lambda model: model.pay(cast.service.id)).status)
        resume_agent(cast.agent.id, by="test")
    statuses += [tell(cast.http(mcp), lambda model: model.pay(cast.service.id)).status for _ in range(2)]

    assert statuses == ["refused"] * 3 + ["paid", "already_paid"]
    assert len(cast.payments()) == 1
    assert cast.count_entries() == 2


def test_calls_at_once_after_a_refusal_are_one_payment(cast, mcp):
    tell(cast.http(mcp), lambda model: model.pay(cast.service.id, "10.01", "Too early"))
    raise_limits(cast)

    async def story(models: list[Model]) -> list[Said]:
        return await asyncio.gather(
            *(model.pay(cast.service.id, "10.01", f"Now {n % 2}") for n in range(4) for model in models)
        )

    heard = tell_at_once([cast.http(mcp), cast.stdio], story)

    assert {one.payment_id for one in heard} == {*cast.payments()}
    assert (len(cast.payments()), cast.count_entries()) == (1, 2)


def test_another_service_or_another_amount_is_another_intent(cast, mcp):
    other = EVM.make_service()

    async def story(model: Model) -> list[str]:
        bought = [(cast.service.id, "1"), (other.id, "1"), (cast.service.id, "2")]
        return [(await model.pay(service, amount)).status for service, amount in bought]

    assert tell(cast.http(mcp), story) == ["paid"] * 3

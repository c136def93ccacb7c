"""Settlement: every approved payment ends settled or failed, failed only on proof, given back once."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from threading import Barrier
from typing import Any

import pytest
from django.db import connection, transaction

from allowance.kernel.assets import Asset
from allowance.kernel.times import utc_now
from ledger.models import BalanceMovement
from ledger.queries import find_budget
from payments import settlement
from payments.chains.base import ChainUnavailable, Finality
from payments.chains.registry import served_chains
from payments.lifecycle import PaymentStatus, SettlementState, may_follow
from payments.models import Payment, Relayer, Settlement
from payments.operations import request_payment
from payments.settlement import broadcast, confirm
from payments.views import payment_environment
from policy.models import Agent
from services.models import WebhookEvent
from tests.chains import (
    LOCALNET,
    balance_of,
    daily_cap,
    drain,
    is_settled,
    make_fake_chain,
    make_request,
    make_service_on,
    paused_escrow,
    pay_on,
    rpc,
)
from tests.factories import make_agent, make_service, new_address
from tests.invariants import check_agent

HOUR = timedelta(hours=1)
S = SettlementState


class Scene:
    """An agent that pays a service on a chain of their own."""

    def __init__(self, relayers: int = 1) -> None:
        self.chain = make_fake_chain(relayers)
        self.agent = make_agent()
        self.service = make_service_on(self.chain, webhook_url="https://payee.example/hook")

    def pay(self, amount: str = "1.00", now: Any = None) -> Payment:
        return pay_on(self.chain, self.agent, self.service, amount, now)

    def broadcast(self) -> int:
        return broadcast(self.chain.name, self.chain)

    def confirm(self) -> int:
        return confirm(self.chain.name, self.chain)

    def pay_and_send(self, amount: str = "1.00") -> Payment:
        payment = self.pay(amount)
        self.broadcast()
        return payment

    def events(self) -> list[str]:
        return list(WebhookEvent.objects.filter(service=self.service).order_by("id").values_list("type", flat=True))

    def returns(self) -> Any:
        return BalanceMovement.objects.filter(agent=self.agent, kind="return")


@pytest.fixture
def scene(db: None) -> Scene:
    return Scene()


def transaction_of(payment: Payment) -> Settlement:
    return Settlement.objects.get(payment=payment)


def state_of(payment: Payment) -> str:
    return transaction_of(payment).state


def status_of(payment: Payment) -> str:
    return Payment.objects.get(pk=payment.pk).status


def expire_claims(scene: Scene) -> None:
    """Let so much time pass that whoever claimed is presumed dead."""
    Settlement.objects.filter(chain=scene.chain.name).update(claimed_until=utc_now() - timedelta(seconds=1))


def grow_old(scene: Scene) -> None:
    """Let so much time pass that what a node took is offered again."""
    moment = utc_now() - settlement.RESEND_AFTER - timedelta(seconds=1)
    Settlement.objects.filter(chain=scene.chain.name).update(changed_at=moment)


# --- Sending ----------------------------------------------------------------------------------------------------------
def test_what_was_approved_is_sent_once_byte_for_byte(scene):
    payment = scene.pay()

    assert scene.broadcast() == 1
    assert scene.broadcast() == 0

    assert scene.chain.sent == [bytes(transaction_of(payment).raw)]
    assert state_of(payment) == S.BROADCAST


def test_a_relayers_transactions_are_sent_in_the_order_of_their_nonces(scene):
    for _ in range(5):
        scene.pay()

    scene.broadcast()

    assert [json.loads(raw)[2] for raw in scene.chain.sent] == [0, 1, 2, 3, 4]


def test_more_than_one_batch_is_sent_at_a_time(scene, monkeypatch):
    monkeypatch.setattr(settlement, "BATCH_SIZE", 2)
    for _ in range(5):
        scene.pay()

    assert scene.broadcast() == 5
    for one in Settlement.objects.filter(chain=scene.chain.name):
        scene.chain.include(one.tx)
    assert scene.confirm() == 5


def test_a_refused_transaction_does_not_hold_up_the_rest(scene):
    refused, *others = [scene.pay() for _ in range(3)]
    scene.chain.refuses.add(bytes(transaction_of(refused).raw))

    assert scene.broadcast() == 2

    assert state_of(refused) == S.SIGNED
    assert status_of(refused) == PaymentStatus.APPROVED
    assert [state_of(payment) for payment in others] == [S.BROADCAST, S.BROADCAST]


def test_a_refused_transaction_is_offered_again_later(scene):
    payment = scene.pay()
    raw = bytes(transaction_of(payment).raw)
    scene.chain.refuses.add(raw)
    scene.broadcast()
    scene.chain.refuses.clear()

    assert scene.broadcast() == 0  # claimed
    expire_claims(scene)
    assert scene.broadcast() == 1

    assert scene.chain.sent == [raw]


def test_what_a_worker_claimed_before_it_died_is_sent_by_the_next(scene):
    payment = scene.pay()
    assert settlement._claim(scene.chain.name) == [transaction_of(payment)]
    assert scene.broadcast() == 0

    expire_claims(scene)

    assert scene.broadcast() == 1
    assert state_of(payment) == S.BROADCAST


def test_what_a_worker_sent_before_it_died_is_found_on_the_chain(scene):
    payment = scene.pay()
    settlement._claim(scene.chain.name)
    scene.chain.include(transaction_of(payment).tx)

    assert scene.confirm() == 0  # the worker may still be at it
    expire_claims(scene)
    assert scene.confirm() == 1

    assert (state_of(payment), status_of(payment)) == (S.FINAL, PaymentStatus.SETTLED)


def test_a_chain_that_is_away_loses_nothing(scene):
    payments = [scene.pay() for _ in range(3)]
    scene.chain.is_away = True

    with pytest.raises(ChainUnavailable):
        scene.broadcast()
    scene.chain.is_away = False
    expire_claims(scene)

    assert scene.broadcast() == 3
    assert {state_of(payment) for payment in payments} == {S.BROADCAST}


def test_a_transaction_that_nodes_forgot_is_sent_again_byte_for_byte(scene):
    payment = scene.pay_and_send()
    scene.confirm()
    assert len(scene.chain.sent) == 1  # not yet

    grow_old(scene)
    scene.confirm()
    scene.confirm()

    assert scene.chain.sent == [bytes(transaction_of(payment).raw)] * 2
    assert state_of(payment) == S.BROADCAST


@pytest.mark.usefixtures("committed")
def test_workers_at_the_same_time_share_the_work_and_send_nothing_twice():
    scene = Scene(relayers=4)
    for _ in range(60):
        pay_on(scene.chain, scene.agent, scene.service, "0.01")

    counts = _at_once([scene.broadcast] * 3)

    assert sum(counts) == 60
    assert len(scene.chain.sent) == len(set(scene.chain.sent)) == 60


@pytest.mark.usefixtures("committed")
def test_a_worker_that_claims_keeps_no_payment_waiting_for_a_relayer():
    scene = Scene(relayers=1)
    scene.pay()

    with transaction.atomic():
        assert len(settlement._claim(scene.chain.name)) == 1
        (payment,) = _at_once([scene.pay])

    assert status_of(payment) == PaymentStatus.APPROVED


@pytest.mark.usefixtures("committed")
def test_a_payment_in_the_making_does_not_keep_earlier_ones_of_its_relayer_from_being_sent():
    scene = Scene(relayers=1)
    scene.pay()

    with transaction.atomic():
        Relayer.objects.select_for_update().get(chain=scene.chain.name)
        (sent,) = _at_once([scene.broadcast])

    assert sent == 1


# --- Following --------------------------------------------------------------------------------------------------------
def test_a_payment_is_settled_at_finality_and_not_before(scene):
    payment = scene.pay_and_send()
    tx = transaction_of(payment).tx

    assert scene.confirm() == 0
    scene.chain.include(tx, is_final=False)
    assert scene.confirm() == 0
    assert (state_of(payment), status_of(payment)) == (S.INCLUDED, PaymentStatus.APPROVED)
    scene.chain.include(tx)
    assert scene.confirm() == 1

    assert (state_of(payment), status_of(payment)) == (S.FINAL, PaymentStatus.SETTLED)
    assert transaction_of(payment).block_number == 90
    assert scene.events() == ["payment.approved", "payment.settled"]
    assert scene.confirm() == 0
    assert scene.events() == ["payment.approved", "payment.settled"]
    check_agent(scene.agent.id)


def test_a_reorganisation_takes_an_inclusion_back(scene):
    payment = scene.pay_and_send()
    tx = transaction_of(payment).tx
    scene.chain.include(tx, is_final=False)
    scene.confirm()
    assert state_of(payment) == S.INCLUDED

    del scene.chain.blocks[tx]
    scene.confirm()
    assert (state_of(payment), status_of(payment)) == (S.BROADCAST, PaymentStatus.APPROVED)
    grow_old(scene)
    scene.confirm()
    assert len(scene.chain.sent) == 2

    scene.chain.include(tx)
    assert scene.confirm() == 1
    assert status_of(payment) == PaymentStatus.SETTLED


def test_a_revert_that_is_not_final_fails_nothing(scene):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment).tx, is_final=False, failure="Reverted: pausable: contract is paused")

    assert scene.confirm() == 0

    assert (state_of(payment), status_of(payment)) == (S.INCLUDED, PaymentStatus.APPROVED)
    assert not scene.returns().exists()


def test_a_final_revert_gives_balance_and_both_windows_back_once(scene):
    scene.pay_and_send("2.00")
    payment = scene.pay_and_send("3.00")
    scene.chain.include(transaction_of(payment).tx, failure="Reverted: escrow: over daily cap")

    assert [scene.confirm(), scene.confirm()] == [1, 0]

    failed = Payment.objects.get(pk=payment.pk)
    assert (failed.status, failed.failure_reason) == (PaymentStatus.FAILED, "Reverted: escrow: over daily cap")
    movement = scene.returns().get()
    assert movement.amount == Decimal("3.00")
    assert movement.payment_id == payment.pk
    assert movement.spent_at == payment.created_at
    assert movement.reason == "Reverted: escrow: over daily cap"
    budget = find_budget(scene.agent.id)
    assert budget is not None
    assert [budget.agent.balance, budget.spent_today, budget.spent_this_week] == [998, 2, 2]
    assert scene.events() == ["payment.approved", "payment.approved", "payment.failed"]
    event = json.loads(WebhookEvent.objects.get(service=scene.service, type="payment.failed").payload)
    assert event["data"]["paymentId"] == payment.pk
    assert event["data"]["status"] == "failed"
    check_agent(scene.agent.id)


def test_what_was_given_back_can_be_spent_again_and_no_more(scene):
    scene.agent = make_agent(daily_limit="5", max_per_payment="5")
    payment = scene.pay_and_send("5.00")
    scene.chain.include(transaction_of(payment).tx, failure="Reverted.")
    scene.confirm()

    assert status_of(scene.pay("5.00")) == PaymentStatus.APPROVED
    with pytest.raises(Exception, match="daily limit"):
        scene.pay("0.01")
    check_agent(scene.agent.id)


def test_a_payment_that_fails_days_later_leaves_the_windows_at_its_own_time(scene):
    long_ago = utc_now() - timedelta(days=2)
    old = scene.pay("4.00", long_ago)
    scene.pay("1.00")
    scene.broadcast()
    scene.chain.include(transaction_of(old).tx, failure="Reverted.")
    scene.confirm()

    budget = find_budget(scene.agent.id)
    assert budget is not None
    assert [budget.spent_today, budget.spent_this_week] == [1, 1]
    assert scene.returns().get().spent_at == old.created_at
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_a_failure_that_several_workers_see_at_once_is_given_back_once():
    scene = Scene()
    payments = [scene.pay_and_send() for _ in range(8)]
    for payment in payments:
        scene.chain.include(transaction_of(payment).tx, failure="Reverted.")

    counts = _at_once([scene.confirm] * 3)

    assert sum(counts) == 8
    assert scene.returns().count() == 8
    assert Agent.objects.get(pk=scene.agent.id).balance == 1000
    assert scene.events().count("payment.failed") == 8
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_a_settlement_that_several_workers_see_at_once_is_told_once():
    scene = Scene()
    payments = [scene.pay_and_send() for _ in range(8)]
    for payment in payments:
        scene.chain.include(transaction_of(payment).tx)

    assert sum(_at_once([scene.confirm] * 3)) == 8
    assert scene.events().count("payment.settled") == 8


@pytest.mark.usefixtures("committed")
def test_failures_and_payments_at_once_never_overspend():
    scene = Scene()
    scene.agent = make_agent(daily_limit="10", max_per_payment="1", weekly_limit="1000")
    for payment in [scene.pay_and_send() for _ in range(10)]:
        scene.chain.include(transaction_of(payment).tx, failure="Reverted.")

    def pay_what_fits() -> int:
        approved = 0
        for _ in range(30):
            try:
                scene.pay()
            except Exception as error:  # noqa: BLE001 - of whatever kind, it must be this one
                assert "daily limit" in str(error)  # noqa: PT017
            else:
                approved += 1
        return approved

    *approvals, failed = _at_once([pay_what_fits, pay_what_fits, scene.confirm])

    assert failed == 10
    while pay_what_fits():
        pass
    approved = Payment.objects.filter(agent=scene.agent, status="approved")
    assert len(approved) == 10
    assert sum(approvals) <= 10
    check_agent(scene.agent.id)


# --- Expiry -----------------------------------------------------------------------------------------------------------
def test_an_absent_transaction_fails_only_when_final_time_is_past_its_deadline(scene):
    payment = scene.pay_and_send()
    deadline = transaction_of(payment).valid_until

    scene.chain.reach(deadline)
    assert scene.confirm() == 0  # the escrow pays up to and including it
    assert status_of(payment) == PaymentStatus.APPROVED
    scene.chain.reach(deadline + timedelta(seconds=1))
    assert scene.confirm() == 1

    assert (state_of(payment), status_of(payment)) == (S.EXPIRED, PaymentStatus.FAILED)
    assert scene.returns().get().amount == 1
    assert scene.events() == ["payment.approved", "payment.failed"]
    check_agent(scene.agent.id)


def test_a_transaction_in_a_block_does_not_expire(scene):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment).tx, is_final=False)
    scene.chain.reach(transaction_of(payment).valid_until + HOUR)

    assert scene.confirm() == 0

    assert (state_of(payment), status_of(payment)) == (S.INCLUDED, PaymentStatus.APPROVED)


def test_a_transaction_whose_block_vanished_expires_like_any_other(scene):
    payment = scene.pay_and_send()
    tx = transaction_of(payment).tx
    scene.chain.include(tx, is_final=False)
    scene.confirm()
    del scene.chain.blocks[tx]
    scene.chain.reach(transaction_of(payment).valid_until + HOUR)

    scene.confirm()
    scene.confirm()

    assert (state_of(payment), status_of(payment)) == (S.EXPIRED, PaymentStatus.FAILED)
    check_agent(scene.agent.id)


def test_a_refused_transaction_expires_like_any_other(scene):
    payment = scene.pay()
    scene.chain.refuses.add(bytes(transaction_of(payment).raw))
    scene.broadcast()
    expire_claims(scene)
    scene.chain.reach(transaction_of(payment).valid_until + HOUR)

    assert scene.confirm() == 1

    assert status_of(payment) == PaymentStatus.FAILED


def test_what_was_never_sent_is_sent_even_after_its_deadline(scene):
    payment = scene.pay(now=utc_now() - timedelta(days=1))
    scene.chain.reach(utc_now())

    assert scene.confirm() == 0
    assert scene.broadcast() == 1

    assert status_of(payment) == PaymentStatus.APPROVED


# --- Unknown is never failed ------------------------------------------------------------------------------------------
def test_a_chain_that_is_away_fails_nothing_however_late_it_is(scene):
    payment = scene.pay_and_send()
    scene.chain.reach(transaction_of(payment).valid_until + HOUR)
    scene.chain.is_away = True

    with pytest.raises(ChainUnavailable):
        scene.confirm()

    assert (state_of(payment), status_of(payment)) == (S.BROADCAST, PaymentStatus.APPROVED)
    assert not scene.returns().exists()


def test_a_chain_that_goes_away_between_two_questions_fails_nothing(scene, monkeypatch):
    payment = scene.pay_and_send()
    scene.chain.reach(transaction_of(payment).valid_until + HOUR)

    def leave(*_: Any) -> dict[str, Any]:
        raise ChainUnavailable

    monkeypatch.setattr(scene.chain, "find_inclusions", leave)
    with pytest.raises(ChainUnavailable):
        scene.confirm()

    assert status_of(payment) == PaymentStatus.APPROVED


def test_a_final_transaction_that_the_escrow_counts_as_paid_gives_nothing_back(scene, caplog):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment).tx, failure="The transaction succeeded without paying 1 USDC.")
    scene.chain.lags = True  # as far as the escrow is concerned, it was paid

    assert scene.confirm() == 0

    assert status_of(payment) == PaymentStatus.APPROVED
    assert not scene.returns().exists()
    assert "neither settled nor proven failed" in caplog.text


def test_a_missing_transaction_that_the_chain_cannot_rule_out_fails_nothing(scene):
    payment = scene.pay_and_send()
    scene.chain.reach(transaction_of(payment).valid_until + HOUR)
    scene.chain.lags = True

    assert scene.confirm() == 0
    assert status_of(payment) == PaymentStatus.APPROVED
    scene.chain.lags = False
    assert scene.confirm() == 1


# --- States -----------------------------------------------------------------------------------------------------------
OPEN = {S.SIGNED, S.BROADCAST, S.INCLUDED}
FORBIDDEN = {
    *((state, state) for state in OPEN),
    (S.BROADCAST, S.SIGNED),
    (S.INCLUDED, S.SIGNED),
    # What is in a block is neither late nor replaced; first its block has to vanish.
    (S.INCLUDED, S.EXPIRED),
    (S.INCLUDED, S.REPLACED),
}


@pytest.mark.parametrize("old", list(S))
@pytest.mark.parametrize("new", list(S))
def test_no_state_follows_an_end_and_none_goes_back_to_signed(old, new):
    allowed = old in OPEN and (old, new) not in FORBIDDEN
    assert may_follow(old, new) == allowed


@pytest.mark.parametrize("end", [S.FINAL, S.FAILED, S.EXPIRED])
def test_an_end_is_an_end_whatever_the_chain_says_later(scene, end):
    payment = scene.pay_and_send()
    row = transaction_of(payment)
    if end == S.EXPIRED:
        scene.chain.reach(row.valid_until + HOUR)
    else:
        scene.chain.include(row.tx, failure=None if end == S.FINAL else "Reverted.")
    scene.confirm()
    assert state_of(payment) == end
    before = (status_of(payment), scene.events(), scene.returns().count())

    for failure in (None, "Reverted."):
        scene.chain.include(row.tx, failure=failure)
        assert scene.confirm() == 0
    scene.broadcast()

    assert state_of(payment) == end
    assert (status_of(payment), scene.events(), scene.returns().count()) == before


def test_a_worker_that_read_a_state_long_ago_changes_nothing(scene):
    payment = scene.pay_and_send()
    stale = Settlement.objects.select_related("payment").get(payment=payment)
    scene.chain.include(stale.tx)
    scene.confirm()

    assert settlement._fail(stale, S.FAILED, "Reverted.") is False

    assert status_of(payment) == PaymentStatus.SETTLED
    check_agent(scene.agent.id)


# --- Reverts on the real chain ----------------------------------------------------------------------------------------
@pytest.fixture
def real(committed: None) -> Callable[[str], Payment]:
    """Have a payment approved on the real chain, on which nothing else is under way."""
    drain()
    agent = make_agent()

    def pay(amount: str) -> Payment:
        service = make_service(recipient=f"evm-localnet:{new_address()}")
        environment = replace(payment_environment(), wake=lambda _: None)
        entry = request_payment(make_request(agent, service, amount), environment).entry
        return Payment.objects.get(pk=entry.payment_id)

    return pay


def include(payment: Payment) -> dict[str, Any]:
    """Send a payment and wait until it is in a block; returns the receipt."""
    broadcast(LOCALNET, served_chains()[LOCALNET])
    while (receipt := rpc("eth_getTransactionReceipt", transaction_of(payment).tx)) is None:
        rpc("evm_mine")
    found: dict[str, Any] = receipt
    return found


def recipient_has(payment: Payment) -> int:
    return balance_of(Asset.USDC, payment.recipient)


def test_a_payment_into_a_paused_escrow_reverts_and_is_given_back(real):
    payment = real("1.50")

    with paused_escrow():
        assert include(payment)["status"] == "0x0"
        drain()

    failed = Payment.objects.get(pk=payment.pk)
    assert (failed.status, state_of(payment)) == (PaymentStatus.FAILED, S.FAILED)
    assert failed.failure_reason == "Reverted: execution reverted: pausable: contract is paused"
    assert not is_settled(payment.pk)
    assert recipient_has(payment) == 0
    assert Agent.objects.get(pk=payment.agent_id).balance == 1000
    check_agent(payment.agent_id)


def test_a_payment_over_the_escrows_daily_cap_reverts_and_the_next_one_arrives(real):
    over = real("2.00")

    with daily_cap(Asset.USDC, 1):
        include(over)
        drain()
    fits = real("0.25")
    include(fits)
    drain()

    failed = Payment.objects.get(pk=over.pk)
    assert failed.status == PaymentStatus.FAILED
    assert "escrow: over daily cap" in failed.failure_reason
    assert status_of(fits) == PaymentStatus.SETTLED
    assert (recipient_has(over), recipient_has(fits)) == (0, 250_000)
    check_agent(over.agent_id)


def test_a_real_revert_fails_nothing_before_it_is_final(real):
    payment = real("1.00")

    with paused_escrow():
        receipt = include(payment)
        before = served_chains()[LOCALNET].find_inclusions(
            [(receipt["transactionHash"], settlement._order(payment))],
            Finality(int(receipt["blockNumber"], 16) - 1, utc_now()),
        )
        drain()

    inclusion = before[receipt["transactionHash"]]
    assert not inclusion.is_final
    assert inclusion.failure is not None
    assert status_of(payment) == PaymentStatus.FAILED


def _at_once(acts: list[Callable[[], Any]]) -> list[Any]:
    """Act in threads that start together, each with a database connection of its own."""
    everyone = Barrier(len(acts))

    def act_and_leave(act: Callable[[], Any]) -> Any:
        try:
            everyone.wait()
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(act_and_leave, acts))

"""A node that lies or lags beside an honest one settles no payment and fails none."""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chains.evm.adapter import EvmChain
from chains.port import ChainUnavailable, Order
from foundation.environment.keys import held_key
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.models import Payment, Settlement
from payments.settling.broadcasting import broadcast
from payments.settling.confirming import confirm
from payments.settling.unpaid import resolve_unpaid
from tests.support.factories import make_agent
from tests.support.fake_chain import make_fake_chain
from tests.support.fake_nodes import ESCROW, NOT_THERE, Node, Truth, adapter, block, made, of_each, receipt, tell
from tests.support.lying_evm_nodes import FINAL, RAW, finality, sought
from tests.support.payment_requests import make_service_on, pay_on


class Case:
    """A payment that was sent, and some nodes, of which one or several may lie about it."""

    def __init__(self, nodes: list[Node], *liars: int, lifetime: timedelta = timedelta(hours=1)) -> None:
        fake = make_fake_chain(relayers=1)
        payment = pay_on(fake, make_agent(), make_service_on(fake))
        broadcast(fake.name, fake)
        row = Settlement.objects.get(payments=payment)
        Settlement.objects.filter(pk=row.pk).update(valid_until=utc_now() + lifetime, raw=RAW)
        # Too old to be signed anew.
        Payment.objects.filter(pk=payment.pk).update(created_at=utc_now() - timedelta(hours=2))
        self.name, self.id, self._nodes, self._liars = fake.name, payment.pk, nodes, liars
        self.truth = Truth(
            row.tx, Order(payment.escrow_id, Asset(payment.asset), payment.amount, payment.recipient), time.time()
        )

    def confirm(self, **lies: Any) -> str:
        """Follow the payment while nodes lie; returns its status."""
        for index, node in enumerate(self._nodes):
            node.answers = self.truth.answers(**(lies if index in self._liars else {}))
        chain = adapter(*self._nodes)
        with suppress(ChainUnavailable):
            confirm(self.name, chain)
            resolve_unpaid(self.name, chain)
        return Payment.objects.get(pk=self.id).status


def lies_about(truth: Truth, *, is_paid: bool) -> Mapping[str, Any]:
    said = Truth(truth.tx, truth.order, truth.time)
    said.is_paid = is_paid
    return said.answers()


LIES = ["eth_getTransactionReceipt", "eth_getTransactionCount", "eth_call"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "methods", [LIES, LIES[:1], LIES[1:], LIES[:2], LIES[::2]], ids=lambda methods: "+".join(one[4:] for one in methods)
)
def test_a_payment_that_waits_is_not_settled_because_a_node_says_so(nodes, liar, methods):
    case = Case(nodes, liar)
    said = lies_about(case.truth, is_paid=True)

    assert case.confirm(**{method: said[method] for method in methods}) == "approved"
    case.truth.is_paid = True
    assert case.confirm() == "settled"


@pytest.mark.django_db
@pytest.mark.parametrize("is_paid", [True, False])
def test_a_lie_concludes_nothing_while_the_other_node_is_away(nodes, liar, is_paid):
    case = Case(nodes[:2], liar)
    other = nodes[1 - liar]
    answering, other.respond = other.respond, lambda _: (503, b"")
    # Paid; or not, and its nonce used by another, and its time over.
    said = dict(lies_about(case.truth, is_paid=is_paid)) | {"eth_getTransactionCount": "0x1"}

    assert case.confirm(**said) == "approved"

    other.respond = answering
    case.truth.is_paid = True
    assert case.confirm() == "settled"


@pytest.mark.django_db
def test_a_payment_that_waits_is_not_failed_because_a_node_says_that_it_reverted(nodes, liar):
    case = Case(nodes, liar)
    reverted = receipt(case.truth.tx, [], is_success=False)

    for lies in ({}, {"eth_getTransactionCount": "0x1"}, {"eth_getTransactionCount": "0x1", "eth_call": of_each(0)}):
        assert case.confirm(eth_getTransactionReceipt=reverted, **lies) == "approved"
    case.truth.is_paid = True
    assert case.confirm() == "settled"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "lies",
    [
        {"eth_getTransactionReceipt": lambda tx: receipt(tx, [], is_success=False)},
        {"eth_getTransactionReceipt": None},
        {"eth_call": of_each(0)},
        {"eth_call": of_each(2)},
        {"eth_getTransactionReceipt": None, "eth_call": of_each(0)},
        {"eth_getTransactionReceipt": None, "eth_call": of_each(0), "eth_getTransactionCount": "0x0"},
    ],
    ids=["reverted", "no receipt", "not paid", "two", "neither", "nothing at all"],
)
def test_a_payment_that_was_made_is_not_failed_because_a_node_says_so(nodes, liar, lies):
    # Its time is over: what is not paid now never will be.
    case = Case(nodes, liar, lifetime=timedelta(hours=-1))
    case.truth.is_paid = True

    # Two of three have it.
    assert case.confirm(**lies) == "settled"


@pytest.mark.django_db
def test_a_payment_that_was_made_is_not_failed_because_one_of_two_nodes_says_so(nodes, liar):
    case = Case(nodes[:2], liar, lifetime=timedelta(hours=-1))
    case.truth.is_paid = True

    for lies in ({"eth_call": of_each(0)}, {"eth_getTransactionReceipt": None, "eth_call": of_each(0)}):
        assert case.confirm(**lies) == "approved"
    assert case.confirm() == "settled"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "lies",
    [
        {"eth_getTransactionCount": "0x0"},
        {"eth_getTransactionReceipt": lambda tx: receipt(tx, [], number=6)},
        {"eth_getBlockByNumber": lambda number, *_: block(99 if number == "latest" else int(number, 16), time.time())},
        {"eth_getBlockByNumber": lambda number, *_: block(3 if number == "latest" else int(number, 16), time.time())},
        {"eth_getBlockByNumber": NOT_THERE},
        {"eth_getTransactionReceipt": NOT_THERE, "eth_call": NOT_THERE, "eth_getTransactionCount": NOT_THERE},
    ],
    ids=["another nonce", "another block", "another height", "a low height", "no blocks", "nothing"],
)
def test_a_payment_that_was_made_is_settled_whatever_one_of_three_nodes_says(nodes, liar, lies):
    case = Case(nodes, liar)
    case.truth.is_paid = True

    assert case.confirm(**lies) == "settled"


@pytest.mark.django_db
@pytest.mark.parametrize("lie", [of_each(1), of_each(2)], ids=["paid", "void"])
def test_a_payment_that_was_not_made_is_not_given_back_while_a_node_denies_it(nodes, liar, lie):
    case = Case(nodes, liar, lifetime=timedelta(hours=-1))

    assert case.confirm(eth_call=lie) == "approved"
    assert case.confirm() == "failed"


@pytest.mark.django_db
@pytest.mark.parametrize("honest", [0, 1, 2])
def test_two_of_three_nodes_that_lie_alike_give_nothing_back_while_the_third_answers(nodes, honest):
    liars = {0, 1, 2} - {honest}
    made, waiting = Case(nodes, *liars, lifetime=timedelta(hours=-1)), Case(nodes, *liars)
    made.truth.is_paid = True
    later = Truth(waiting.truth.tx, waiting.truth.order, waiting.truth.time + 7200)
    higher = Truth(waiting.truth.tx, waiting.truth.order, waiting.truth.time + 7200)
    higher.head = 40

    unpaid = lies_about(made.truth, is_paid=False)
    for lies in ({"eth_call": of_each(0)}, {**unpaid}, {**unpaid, "eth_getBlockByNumber": higher.block}):
        assert made.confirm(**lies) == "approved"
    # It may be made still: only by the time that they say, it is too late.
    for late in (later, higher):
        assert waiting.confirm(eth_getBlockByNumber=late.block) == "approved"

    assert made.confirm() == "settled"


@pytest.mark.django_db
def test_two_of_three_nodes_that_lie_alike_are_believed_that_a_payment_was_made(nodes):
    case = Case(nodes, 0, 1)

    assert case.confirm(**lies_about(case.truth, is_paid=True)) == "settled"


@pytest.mark.django_db
def test_a_payment_does_not_expire_because_a_node_says_how_late_it_is(nodes, liar):
    case = Case(nodes, liar)
    later = Truth(case.truth.tx, case.truth.order, case.truth.time + 7200)

    assert case.confirm(eth_getBlockByNumber=later.block) == "approved"
    case.truth.time += 7200
    assert case.confirm() == "failed"


@pytest.mark.django_db
def test_a_node_that_is_behind_fails_nothing_while_it_is_alone(nodes):
    case = Case(nodes[:1], 0, lifetime=timedelta(hours=-1))

    assert case.confirm(eth_call=NOT_THERE) == "approved"
    assert case.confirm() == "failed"


@pytest.mark.django_db
def test_a_node_that_keeps_no_old_state_proves_all_the_same_that_a_late_payment_was_never_made(nodes):
    case = Case(nodes[:1], 0, lifetime=timedelta(hours=-1))
    pruned = {
        "eth_getTransactionCount": lambda _, block: NOT_THERE if block == hex(FINAL) else "0x0",
        "eth_call": lambda call, block: NOT_THERE if block == hex(FINAL) else of_each(0)(call, block),
    }

    assert case.confirm(**pruned) == "failed"


@pytest.mark.django_db
def test_a_node_that_keeps_no_old_state_settles_what_was_paid(nodes):
    case = Case(nodes[:1], 0)
    case.truth.is_paid = True
    pruned = {
        "eth_getTransactionCount": lambda _, block: NOT_THERE if block == hex(FINAL) else "0x1",
        "eth_call": lambda call, block: NOT_THERE if block == hex(FINAL) else of_each(1)(call, block),
    }

    assert case.confirm(**pruned) == "settled"


@pytest.mark.django_db
def test_nothing_is_settled_because_a_node_says_that_its_block_is_final(nodes, liar):
    case = Case(nodes, liar)
    order = case.truth.order
    honest = case.truth.answers(
        eth_getTransactionReceipt=lambda tx: receipt(tx, made(order), number=12),
        eth_getTransactionCount=lambda _, block: "0x0" if block == hex(FINAL) else "0x1",
        eth_call=of_each(1),
    )
    for node in nodes:
        node.answers = dict(honest)
    nodes[liar].answers["eth_getTransactionReceipt"] = lambda tx: receipt(tx, made(order), number=5)

    confirm(case.name, adapter(*nodes))

    assert Payment.objects.get(pk=case.id).status == "approved"


@pytest.mark.django_db
def test_a_first_node_that_stopped_following_the_chain_holds_up_nothing(nodes):
    case = Case(nodes, 0)
    case.truth.is_paid = True
    yesterday = Truth(case.truth.tx, case.truth.order, case.truth.time - 86_400)
    yesterday.head = 3

    def old(answer: Any) -> Any:
        return lambda what, block: answer(what, block) if block == "latest" or int(block, 16) <= 3 else NOT_THERE

    stuck = {"eth_getBlockByNumber": yesterday.block, "eth_getTransactionReceipt": None}
    assert case.confirm(**stuck, eth_getTransactionCount=old(lambda *_: "0x0"), eth_call=old(of_each(0))) == "settled"


@pytest.mark.django_db
def test_a_payment_by_an_earlier_escrow_is_asked_of_that(nodes):
    case = Case(nodes, 0)
    case.truth.is_paid = True
    for node in nodes:
        node.answers = case.truth.answers(
            eth_call=lambda call, block: of_each(int(call["to"].lower() == ESCROW))(call, block)
        )
    chain = adapter(*nodes)
    chain = EvmChain.of(replace(chain.served, escrow="0x" + "77" * 20), held_key("RELAYER_SEED"))

    confirm(case.name, chain)

    assert Payment.objects.get(pk=case.id).status == "settled"


def test_a_chain_whose_nodes_contradict_each_other_does_not_hide_that_anothers_do(nodes, truth, caplog):
    truth.is_paid = True
    one = tell(nodes[:2], truth, 0, eth_call=of_each(0))
    served = replace(one.served, chain=replace(one.served.chain, aliases=("another",)))
    other = EvmChain.of(served, held_key("RELAYER_SEED"))
    for chain in (one, other, one, other):
        chain.prover.find_fates([sought(truth)], finality())

    said = [message.split(":")[0] for message in caplog.messages if "contradict" in message]
    assert said == [one.served.chain.alias, "another"]

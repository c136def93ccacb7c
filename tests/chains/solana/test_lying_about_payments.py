"""A payment on Solana is not settled, failed or signed again on one node's word."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from chains.port import ChainUnavailable, SignedTransaction
from chains.solana.preparing import SolanaPreparer
from foundation.kernel.times import utc_now
from payments.models import ChainState, DepositCursor, Payment, Settlement
from payments.settling.broadcasting import broadcast
from payments.settling.confirming import confirm
from tests.support.factories import make_agent
from tests.support.fake_chain import make_fake_chain
from tests.support.fake_nodes import Node, open_nodes
from tests.support.fake_solana_nodes import FINAL, GENESIS, HEIGHT, Truth, adapter, some_tx, status, tell
from tests.support.lying_solana_nodes import OLD, sign
from tests.support.payment_requests import make_service_on, pay_on
from tests.support.solana_vm import SEED

ERROR = {"InstructionError": [3, {"Custom": 1}]}


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    with open_nodes(3) as made:
        yield made


class Renewing(SolanaPreparer):
    """Signs again without asking what is observed; counts how often."""

    renewed = 0

    def prepare(self, *_: Any, **__: Any) -> SignedTransaction:
        self.renewed += 1
        return SignedTransaction(
            some_tx(10**6), b"signed", Decimal(0), valid_until_height=10**6, valid_from_block=FINAL
        )


class Case:
    """A payment that was sent, good until height 850, and some nodes, of which one or several may lie about it."""

    def __init__(self, nodes: list[Node], *liars: int) -> None:
        fake = make_fake_chain(relayers=1, has_nonces=False)
        payment = pay_on(fake, make_agent(), make_service_on(fake))
        broadcast(fake.name, fake)
        self.name, self.id, self._nodes, self._liars = fake.name, payment.pk, nodes, liars
        self.truth = Truth()
        signed = sign(self.truth)
        row = Settlement.objects.get(payments=payment)
        Settlement.objects.filter(pk=row.pk).update(raw=signed.raw, valid_until_height=850, valid_from_block=700)
        self.tx = row.tx
        ChainState.objects.filter(pk=fake.name).update(observed_at=utc_now())

    def confirm(self, **lies: Any) -> tuple[str, int]:
        """Follow the payment while nodes lie; returns its status, and how often it was signed again."""
        honest = tell(self._nodes, self.truth)
        for liar in self._liars:
            self._nodes[liar].answers = self.truth.answers(**lies)
        preparer = Renewing(honest.served, SEED, honest.signers)
        chain = replace(honest, preparer=preparer)
        # The escrow's history was searched all the way, and holds no stray.
        searched = {"block_number": 2 * FINAL, "escrow": chain.escrow.address, "moved_at": utc_now()}
        DepositCursor.objects.update_or_create(chain=self.name, defaults=searched)
        with suppress(ChainUnavailable):
            confirm(self.name, chain)
        return Payment.objects.get(pk=self.id).status, preparer.renewed


@pytest.mark.django_db
@pytest.mark.parametrize("error", [None, ERROR], ids=["paid", "failed"])
def test_a_payment_that_is_absent_is_neither_settled_nor_failed_because_a_node_says_so(nodes, liar, error):
    case = Case(nodes, liar)
    case.truth.height = 800

    assert case.confirm(getSignatureStatuses=lambda *_: case.truth.context([status(900, error)])) == ("approved", 0)
    case.truth.statuses[case.tx] = status(900)
    assert case.confirm() == ("settled", 0)


@pytest.mark.django_db
@pytest.mark.parametrize("count", [2, 3])
def test_a_payment_that_was_made_is_not_signed_again_because_a_node_does_not_have_it(nodes, liar, count):
    case = Case(nodes[:count], liar)
    case.truth.statuses[case.tx] = status(900)

    said = case.confirm(getSignatureStatuses=lambda *_: case.truth.context([None]))
    # What two say, of three, is so.
    assert said == ("approved" if count == 2 else "settled", 0)
    assert case.confirm() == ("settled", 0)


@pytest.mark.django_db
@pytest.mark.parametrize("lie", [status(900), status(900, ERROR)], ids=["paid", "failed"])
def test_a_payment_that_was_not_made_is_neither_signed_again_nor_given_back_while_a_node_denies_it(nodes, liar, lie):
    """Past its last block, and absent by what two of three say: one that has it may be the one that does not lie."""
    case = Case(nodes, liar)

    assert case.confirm(getSignatureStatuses=lambda *_: case.truth.context([lie])) == ("approved", 0)
    assert case.confirm() == ("approved", 1)


@pytest.mark.django_db
def test_two_of_three_nodes_that_lie_alike_have_nothing_signed_again_nor_given_back(nodes):
    case = Case(nodes, 0, 1)
    case.truth.statuses[case.tx] = status(900)

    for lie in (None, status(900, ERROR)):
        assert case.confirm(getSignatureStatuses=lambda *_, lie=lie: case.truth.context([lie])) == ("approved", 0)
    assert case.confirm() == ("settled", 0)


@pytest.mark.django_db
def test_two_of_three_nodes_that_lie_alike_are_believed_that_a_payment_was_made(nodes):
    case = Case(nodes, 0, 1)

    assert case.confirm(getSignatureStatuses=lambda *_: case.truth.context([status(900)])) == ("settled", 0)


@pytest.mark.django_db
@pytest.mark.parametrize("away", [True, False])
def test_a_payment_is_not_signed_again_on_one_nodes_word(nodes, liar, away):
    case = Case(nodes[:2], liar)
    other = nodes[1 - liar]
    answering = other.respond
    other.respond = (lambda _: (503, b"")) if away else answering
    # An honest node that is behind cannot say that nothing is there.
    case.truth.final, case.truth.height = (FINAL, HEIGHT) if away else (600, 500)

    assert case.confirm(**replace(case.truth, final=FINAL, height=HEIGHT).answers()) == ("approved", 0)

    other.respond, case.truth.final, case.truth.height = answering, FINAL, HEIGHT
    assert case.confirm() == ("approved", 1)


@pytest.mark.django_db
def test_a_payment_whose_blockhash_is_still_good_is_not_signed_again(nodes, liar):
    # A node said when it was signed that it would be good for less long than it is.
    case = Case(nodes, liar)
    case.truth.usable.add(OLD)

    assert case.confirm(isBlockhashValid=lambda *_: case.truth.context(False)) == ("approved", 0)
    case.truth.usable.clear()
    assert case.confirm() == ("approved", 1)


def test_a_node_of_another_chain_counts_as_away(nodes, truth):
    chain = tell(nodes[:2], truth, 0, getGenesisHash="5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d")
    chain.follower.find_finality()
    assert nodes[0].asked == ["getGenesisHash"]

    answers: list[Any] = [None, 5, {}, "", GENESIS[:31]]
    for answer in answers:
        nodes[1].answers["getGenesisHash"] = answer
        with pytest.raises(ChainUnavailable):
            adapter(nodes[1]).follower.find_finality()

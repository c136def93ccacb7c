"""A node that lies or lags proves nothing and includes nothing."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chains.evm.adapter import EvmChain
from chains.port import (
    AuthorizedBy,
    ChainUnavailable,
    Fate,
    Inclusion,
    NonceFate,
    PaymentFate,
)
from foundation.kernel.times import utc_now
from payments.lifecycle import SettlementState
from payments.models import Payment
from tests.support.fake_nodes import (
    ESCROW,
    NOT_THERE,
    TOKEN,
    Node,
    Truth,
    adapter,
    hash_of,
    made,
    of_each,
    order_of,
    paid,
    receipt,
    tell,
    transfer,
    word,
)
from tests.support.fates import PAID, UNKNOWN, LoneFate, lone
from tests.support.lying_evm_nodes import TX, finality, sought
from tests.support.scenes import Scene, state_of, status_of, transaction_of

UNMADE = (PaymentFate.UNPAID, NonceFate.UNUSED)


# --- Fates ------------------------------------------------------------------------------------------------------------
def prove(chain: EvmChain, truth: Truth) -> LoneFate:
    return lone(chain.prover.find_fates([sought(truth)], finality())[TX])


@pytest.mark.parametrize("is_paid", [True, False])
def test_a_proof_is_what_nodes_say_that_can_tell(nodes, truth, liar, is_paid):
    truth.is_paid = is_paid
    fate = PAID if is_paid else UNMADE

    honest = tell(nodes, truth, liar)
    assert prove(honest, truth) == fate
    lagging = tell(nodes, truth, liar, eth_call=NOT_THERE, eth_getTransactionCount=NOT_THERE)
    assert prove(lagging, truth) == fate
    assert prove(adapter(nodes[liar]), truth) == UNKNOWN
    for count in (2, 3):
        lies = {"eth_call": of_each(int(not is_paid)), "eth_getTransactionCount": hex(not is_paid)}
        # That it was paid, two of three may say. That it was not, all must.
        said = UNKNOWN if count == 2 else PAID if is_paid else (PaymentFate.UNKNOWN, NonceFate.UNUSED)
        assert prove(tell(nodes[:count], truth, liar, **lies), truth) == said


@pytest.mark.parametrize("used", [0, 1])
def test_that_an_authorization_was_used_two_may_say_that_it_was_not_all_must(nodes, truth, liar, used):
    order = replace(truth.order, authorized_by=AuthorizedBy(ESCROW, TOKEN))
    query = replace(sought(truth), orders=[order])

    def say(is_used: int) -> Any:
        return lambda call, block: word(is_used) if call["to"] == TOKEN else of_each(0)(call, block)

    for index, node in enumerate(nodes):
        node.answers = truth.answers(eth_call=say(1 - used if index == liar else used))
    said, _ = lone(adapter(*nodes).prover.find_fates([query], finality())[TX])

    assert said is (PaymentFate.PAID if used else PaymentFate.UNKNOWN)


@pytest.mark.parametrize("answer", ["0x", None, word(2), "1", {}], ids=["nothing", "null", "two", "no hex", "object"])
def test_a_word_that_is_neither_yes_nor_no_proves_nothing(nodes, truth, answer):
    nodes[0].answers = truth.answers(eth_call=lambda *_: answer)

    assert prove(adapter(nodes[0]), truth)[0] is PaymentFate.UNKNOWN


@pytest.mark.parametrize("status", [2, 3, 2**256 - 1])
def test_a_status_that_is_neither_paid_nor_unpaid_proves_nothing(nodes, truth, status):
    nodes[0].answers = truth.answers(eth_call=of_each(status))

    assert prove(adapter(nodes[0]), truth)[0] is PaymentFate.UNKNOWN


@pytest.mark.parametrize("has_nonces", [True, False])
@pytest.mark.parametrize("is_proven", [True, False])
def test_what_a_node_has_in_a_block_for_ever_ends_by_proof_alone(db, monkeypatch, has_nonces, is_proven):
    scene = Scene(has_nonces=has_nonces)
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment), is_final=False)
    scene.confirm()
    assert state_of(payment) == SettlementState.INCLUDED
    Payment.objects.filter(pk=payment.pk).update(created_at=utc_now() - timedelta(days=1))
    scene.chain.blocks[transaction_of(payment).tx] = Inclusion(10**6, "elsewhere", is_final=False, failure=None)
    fate = UNMADE if is_proven else UNKNOWN
    monkeypatch.setattr(
        scene.chain, "find_fates", lambda sought, _: {one.tx: Fate.of_all(one, *fate) for one in sought}
    )
    deadline = transaction_of(payment).valid_until
    if deadline is not None:
        scene.chain.reach(deadline + timedelta(seconds=1))
    else:
        scene.chain.finalise(10**4)

    scene.confirm()

    assert (state_of(payment), status_of(payment)) == (("expired", "failed") if is_proven else ("included", "approved"))


# --- Inclusions -------------------------------------------------------------------------------------------------------
def look(node: Node, truth: Truth, block_number: int | None = None) -> Any:
    return adapter(node).follower.find_inclusions([sought(truth, block_number)], finality()).inclusions.get(TX)


def test_a_transaction_in_a_block_that_is_not_on_the_chain_is_not_final(nodes, truth):
    truth.is_paid = True
    elsewhere = receipt(TX, made(truth.order)) | {"blockHash": hash_of(99)}
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=elsewhere)
    assert not look(nodes[0], truth).is_final

    nodes[0].answers = truth.answers()
    assert (look(nodes[0], truth).is_final, look(nodes[0], truth).failure) == (True, None)


def test_a_receipt_from_a_block_that_there_is_not_yet_is_no_receipt(nodes, truth):
    far = receipt(TX, made(truth.order), number=10**12)
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=far, eth_getTransactionCount="0x1")
    chain = adapter(nodes[0])

    assert not chain.follower.find_inclusions([sought(truth)], finality()).inclusions


@pytest.mark.parametrize(
    "changes",
    [{"transactionHash": hash_of(7)}, {"status": "0x2"}, {"status": None}, {"blockNumber": "0x" + "f" * 30}],
    ids=["another one's", "no status", "null", "a number that no chain has"],
)
def test_a_receipt_that_cannot_be_read_is_no_receipt(nodes, truth, changes):
    truth.is_paid = True
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=receipt(TX, []) | changes)

    with pytest.raises(ChainUnavailable):
        look(nodes[0], truth)


def test_one_node_of_three_neither_hides_a_transaction_nor_makes_one_up(nodes, truth, liar):
    made_up = {"eth_getTransactionReceipt": lambda tx: receipt(tx, made(truth.order))}
    used = {"eth_getTransactionCount": "0x1"}  # another transaction of the relayer may have its nonce

    for node in nodes:
        node.answers = truth.answers(**used)
    nodes[liar].answers |= made_up
    assert adapter(*nodes).follower.find_inclusions([sought(truth)], finality()).inclusions == {}

    for node in nodes:
        node.answers = truth.answers(**used, **made_up)
    nodes[liar].answers |= {"eth_getTransactionReceipt": None, "eth_getTransactionCount": "0x0"}
    found = adapter(*nodes).follower.find_inclusions([sought(truth)], finality())
    assert (found.inclusions[TX].is_final, found.mined_nonces) == (True, {"0xrelayer": 1})


ORDER = order_of()


@pytest.mark.parametrize(
    "logs",
    [
        [],
        [transfer(ORDER, address=ESCROW)],
        [transfer(ORDER, topics=[transfer(ORDER)["topics"][0], word(ORDER.recipient), word(ORDER.recipient)])],
        [transfer(ORDER, topics=[transfer(ORDER)["topics"][0], word(ESCROW), word(TOKEN)])],
        [transfer(ORDER, topics=transfer(ORDER)["topics"][:2])],
        [transfer(ORDER, data=word(10**6 - 1))],
        [transfer(ORDER, data="0x")],
    ],
    ids=["no log", "another token", "another payer", "another payee", "another event", "less", "no amount"],
)
def test_a_success_without_the_tokens_own_word_is_not_a_payment(nodes, truth, logs):
    truth.is_paid = True
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=receipt(TX, [paid(ORDER), *logs]))

    assert look(nodes[0], truth).failure.startswith("The transaction succeeded without paying")


@pytest.mark.parametrize(
    "logs",
    [
        [],
        [paid(ORDER, address=TOKEN)],
        [paid(ORDER, topics=[hash_of(9), *paid(ORDER)["topics"][1:]])],
        [paid(ORDER, topics=[paid(ORDER)["topics"][0], hash_of(9), *paid(ORDER)["topics"][2:]])],
        [paid(ORDER, topics=paid(ORDER)["topics"][:1])],
    ],
    ids=["no log", "another contract", "another event", "another id", "no id"],
)
def test_a_success_without_the_escrows_own_word_is_not_a_payment(nodes, truth, logs):
    truth.is_paid = True
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=receipt(TX, [*logs, transfer(ORDER)]))

    assert look(nodes[0], truth).failure.startswith("The transaction succeeded without paying")


def test_a_payment_is_found_among_other_logs_and_in_any_case_of_hex(nodes, truth):
    truth.is_paid = True
    shouted = [one | {"topics": ["0x" + topic[2:].upper() for topic in one["topics"]]} for one in made(ORDER)]
    logs = [transfer(ORDER, address=ESCROW), transfer(ORDER, data="0x"), *shouted]
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=receipt(TX, logs))

    assert look(nodes[0], truth).failure is None


def test_a_revert_whose_reason_nobody_remembers_is_still_a_revert(nodes, truth):
    truth.is_paid = True
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=receipt(TX, [], is_success=False))

    assert look(nodes[0], truth).failure == "Reverted."

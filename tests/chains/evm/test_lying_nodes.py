"""A node that lies or lags makes nothing final, proves nothing and includes nothing."""

from datetime import timedelta
from typing import Any

import pytest

from allowance.kernel.times import utc_now
from chains.port import NOTHING_PROVEN, ChainUnavailable, Inclusion, NonceProof, PaymentProof, Proof
from payments.lifecycle import SettlementState
from payments.models import Payment
from tests.support.deposits import none_of_ours
from tests.support.fake_nodes import (
    ESCROW,
    NOT_THERE,
    TOKEN,
    Node,
    Truth,
    adapter,
    block,
    fee_history,
    hash_of,
    order_of,
    receipt,
    tell,
    transfer,
    word,
)
from tests.support.lying_evm_nodes import FINAL, TX, finality, sought
from tests.support.scenes import Scene, state_of, status_of, transaction_of

UNKNOWN = NOTHING_PROVEN


# --- Finality ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("head", "age_s"), [(10**6, 0), (10**6, 10**6), (3, 10**6)], ids=["ahead", "ahead and stale", "stale"]
)
def test_a_node_alone_does_not_say_what_is_final(nodes, truth, liar, head, age_s):
    def lie(number: str, *_: Any) -> Any:
        return block(head, truth.time - age_s) if number == "latest" else truth.block(number)

    assert tell(nodes, truth, liar, eth_getBlockByNumber=lie).find_finality().block_number == FINAL


def test_a_node_that_is_a_little_behind_delays_finality(nodes, truth, liar):
    def behind(number: str, *_: Any) -> Any:
        return block(9, truth.time - 3) if number == "latest" else truth.block(number)

    assert tell(nodes[:2], truth, liar, eth_getBlockByNumber=behind).find_finality().block_number == 7
    assert tell(nodes, truth, liar, eth_getBlockByNumber=behind).find_finality().block_number == FINAL


def test_one_of_several_nodes_alone_makes_nothing_final(nodes, truth):
    chain = tell(nodes[:2], truth, 0)
    nodes[1].respond = lambda _: (503, b"")

    assert chain.find_finality().block_number == 0
    with pytest.raises(ChainUnavailable):
        chain.search_escrow(1, FINAL, none_of_ours)
    with pytest.raises(ChainUnavailable):
        chain.find_holdings(FINAL)
    assert chain.find_proofs([sought(truth)], finality()) == {TX: UNKNOWN}


@pytest.mark.parametrize("lie", [{"timestamp": "0x0"}, {"hash": hash_of(99)}], ids=["time", "hash"])
def test_nothing_is_final_while_nodes_contradict_each_other_about_the_block(nodes, truth, liar, lie):
    def other(number: str, *_: Any) -> Any:
        return truth.block(number) | (lie if number == hex(FINAL) else {})

    with pytest.raises(ChainUnavailable):
        tell(nodes, truth, liar, eth_getBlockByNumber=other).find_finality()


@pytest.mark.parametrize(
    "answer",
    [None, NOT_THERE, {}, block(5, 2**80), {"number": "5", "hash": hash_of(5), "timestamp": "0x5"}],
    ids=["null", "error", "empty", "a time that no calendar has", "no quantity"],
)
def test_a_chain_without_a_block_that_can_be_read_is_away(nodes, answer):
    nodes[0].answers = {"eth_getBlockByNumber": answer, "eth_feeHistory": fee_history("0x4", "0x5")}

    with pytest.raises(ChainUnavailable):
        adapter(nodes[0]).find_finality()
    with pytest.raises(ChainUnavailable):
        adapter(nodes[0]).observe()


# --- Proofs -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("is_paid", [True, False])
def test_a_proof_is_what_all_nodes_say_that_can_tell(nodes, truth, liar, is_paid):
    truth.is_paid = is_paid
    proof = Proof(PaymentProof.PAID, NonceProof.USED) if is_paid else Proof(PaymentProof.UNPAID, NonceProof.UNUSED)

    honest = tell(nodes, truth, liar)
    assert honest.find_proofs([sought(truth)], finality()) == {TX: proof}
    lagging = tell(nodes, truth, liar, eth_call=NOT_THERE, eth_getTransactionCount=NOT_THERE)
    assert lagging.find_proofs([sought(truth)], finality()) == {TX: proof}
    assert adapter(nodes[liar]).find_proofs([sought(truth)], finality()) == {TX: UNKNOWN}
    lying = tell(nodes, truth, liar, eth_call=word(not is_paid), eth_getTransactionCount=hex(not is_paid))
    assert lying.find_proofs([sought(truth)], finality()) == {TX: UNKNOWN}


@pytest.mark.parametrize("answer", ["0x", None, word(2), "1", {}], ids=["nothing", "null", "two", "no hex", "object"])
def test_a_word_that_is_neither_yes_nor_no_proves_nothing(nodes, truth, answer):
    nodes[0].answers = truth.answers(eth_call=lambda *_: answer)

    assert adapter(nodes[0]).find_proofs([sought(truth)], finality())[TX].payment is PaymentProof.UNKNOWN


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
    proof = Proof(PaymentProof.UNPAID, NonceProof.UNUSED) if is_proven else UNKNOWN
    monkeypatch.setattr(scene.chain, "find_proofs", lambda sought, _: {one.tx: proof for one in sought})
    deadline = transaction_of(payment).valid_until
    if deadline is not None:
        scene.chain.reach(deadline + timedelta(seconds=1))
    else:
        scene.chain.finalise(10**4)

    scene.confirm()

    assert (state_of(payment), status_of(payment)) == (("expired", "failed") if is_proven else ("included", "approved"))


# --- Inclusions -------------------------------------------------------------------------------------------------------
def look(node: Node, truth: Truth, block_number: int | None = None) -> Any:
    return adapter(node).find_inclusions([sought(truth, block_number)], finality()).inclusions.get(TX)


def test_a_transaction_in_a_block_that_is_not_on_the_chain_is_not_final(nodes, truth):
    truth.is_paid = True
    elsewhere = receipt(TX, [transfer(truth.order)]) | {"blockHash": hash_of(99)}
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=elsewhere)
    assert not look(nodes[0], truth).is_final

    nodes[0].answers = truth.answers()
    assert (look(nodes[0], truth).is_final, look(nodes[0], truth).failure) == (True, None)


def test_a_receipt_from_a_block_that_there_is_not_yet_is_no_receipt(nodes, truth):
    far = receipt(TX, [transfer(truth.order)], number=10**12)
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=far, eth_getTransactionCount="0x1")
    chain = adapter(nodes[0])

    assert not chain.find_inclusions([sought(truth)], finality()).inclusions


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
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=receipt(TX, logs))

    assert look(nodes[0], truth).failure.startswith("The transaction succeeded without paying")


def test_a_payment_is_found_among_other_logs_and_in_any_case_of_hex(nodes, truth):
    truth.is_paid = True
    shouted = transfer(ORDER, topics=["0x" + one[2:].upper() for one in transfer(ORDER)["topics"]])
    logs = [transfer(ORDER, address=ESCROW), transfer(ORDER, data="0x"), shouted]
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=receipt(TX, logs))

    assert look(nodes[0], truth).failure is None


def test_a_revert_whose_reason_nobody_remembers_is_still_a_revert(nodes, truth):
    truth.is_paid = True
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=receipt(TX, [], is_success=False))

    assert look(nodes[0], truth).failure == "Reverted."

"""A Solana transaction that is no payment: told before it is offered, and waited for whatever nodes say."""

from collections.abc import Sequence
from typing import Any

import pytest
from solders.keypair import Keypair
from solders.system_program import TransferParams, transfer

from chains.port import ChainUnavailable
from foundation.kernel.errors import OperationRefused
from owner.solana.sending import Sender
from tests.support.fake_nodes import Answer, Node
from tests.support.fake_solana_nodes import FINAL, HEIGHT, NEWEST, RELAYER, Truth, adapter, served, status

WALLET = Keypair()
INSTRUCTIONS = [transfer(TransferParams(from_pubkey=WALLET.pubkey(), to_pubkey=RELAYER, lamports=1))]
ALREADY_THERE = {"code": -32002, "message": "already processed", "data": {"err": "AlreadyProcessed"}}
LATE = {"absoluteSlot": FINAL, "blockHeight": HEIGHT + 183}


def send(nodes: Sequence[Node], told: list[str] | None = None) -> str:
    told = [] if told is None else told
    return Sender(served().chain, adapter(*nodes).nodes, WALLET, told.append).send(INSTRUCTIONS)


def tx_of(truth: Truth) -> str:
    """Find what a transaction is called that is signed with an honest node's blockhash."""
    node, told = Node(), list[str]()
    node.answers = truth.answers(sendTransaction={"code": 1, "message": "no"})
    try:
        with pytest.raises(OperationRefused, match="refuse the transaction: no"):
            send([node], told)
    finally:
        node.close()
    return told[0].split()[1]


def failing_at(node: Node, method: str, times: int) -> None:
    """Have a node break off so many requests for a method."""
    left = iter(range(times))

    def respond(body: Any) -> Answer:
        methods = [call["method"] for call in (body if isinstance(body, list) else [body])]
        return (503, b"") if method in methods and next(left, None) is not None else node.tell(body)

    node.respond = respond


def test_the_id_is_told_before_the_transaction_is_offered(nodes, truth):
    tx, told, known = tx_of(truth), list[str](), list[list[str]]()
    truth.statuses[tx] = status(NEWEST, None, "confirmed")

    def take(raw: str, _: Any) -> str:
        known.append([*told])
        return tx

    nodes[0].answers = truth.answers(sendTransaction=take)

    assert send(nodes[:1], told) == tx
    assert known == [[f"Sending {tx}"]]


def test_what_a_node_may_have_taken_that_did_not_answer_is_waited_for(nodes, truth):
    tx = tx_of(truth)
    nodes[0].answers = truth.answers(sendTransaction=tx)
    failing_at(nodes[0], "sendTransaction", times=1)
    told: list[str] = []
    truth.statuses[tx] = status(NEWEST, None, "confirmed")

    assert send(nodes[:1], told) == tx
    assert "No node answered sendTransaction." in told


def test_what_another_node_has_already_is_waited_for(nodes, truth):
    tx = tx_of(truth)
    failing_at(nodes[0], "sendTransaction", times=1)
    nodes[0].answers = nodes[1].answers = truth.answers(sendTransaction=ALREADY_THERE)
    truth.statuses[tx] = status(NEWEST, None, "confirmed")

    assert send(nodes) == tx


def test_no_node_before_it_is_signed_means_that_nothing_was_sent(nodes, truth):
    nodes[0].answers = truth.answers(getLatestBlockhash=None)
    told: list[str] = []

    with pytest.raises(ChainUnavailable):
        send(nodes[:1], told)
    assert told == []
    assert "sendTransaction" not in nodes[0].asked


def test_what_has_expired_is_told(nodes, truth):
    nodes[0].answers = truth.answers(sendTransaction=tx_of(truth), getEpochInfo=LATE)

    with pytest.raises(OperationRefused, match="has expired"):
        send(nodes[:1])


def test_nothing_has_expired_by_the_height_of_one_node_and_what_another_does_not_have(nodes, truth):
    tx = tx_of(truth)
    landed = Truth(blockhash=truth.blockhash, statuses={tx: status(NEWEST, None, "confirmed")})
    nodes[0].answers = landed.answers(sendTransaction=tx, getEpochInfo=LATE)
    failing_at(nodes[0], "getSignatureStatuses", times=1)
    nodes[1].answers = truth.answers(sendTransaction=tx)

    assert send(nodes) == tx


def test_nothing_has_expired_by_an_answer_that_is_older_than_the_height(nodes, truth):
    tx = tx_of(truth)
    older = {"context": {"slot": FINAL - 1}, "value": [None]}
    nodes[0].answers = truth.answers(sendTransaction=tx, getEpochInfo=LATE, getSignatureStatuses=older)
    nodes[1].answers = truth.answers(sendTransaction=tx)
    truth.statuses[tx] = status(NEWEST, None, "confirmed")

    assert send(nodes) == tx

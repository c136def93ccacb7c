"""Deposits, holdings and broadcasts with a node that lies or lags beside an honest one."""

from typing import Any

import pytest

from chains.evm.events import VOIDED
from chains.port import ChainUnavailable, Contradiction
from foundation.kernel.assets import Asset
from tests.support.deposits import none_of_ours
from tests.support.fake_nodes import ESCROW, NOT_THERE, TOKEN, adapter, deposit, hash_of, logs_of, tell, word
from tests.support.lying_evm_nodes import FINAL, TX


# --- Deposits ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "logs",
    [[], [deposit(4)], [deposit(4), deposit(6), deposit(7)], [deposit(4), deposit(6, agent="another")]],
    ids=["none", "one left out", "one invented", "another agent"],
)
def test_deposits_that_two_nodes_contradict_each_other_about_are_not_believed(nodes, truth, liar, logs):
    truth_of_deposits = [deposit(4), deposit(6)]
    chain = tell(nodes[:2], truth, liar, eth_getLogs=logs_of(*logs))
    nodes[1 - liar].answers["eth_getLogs"] = logs_of(*truth_of_deposits)
    with pytest.raises(ChainUnavailable):
        chain.escrow.search(1, FINAL, none_of_ours)

    # In whatever order.
    nodes[liar].answers["eth_getLogs"] = logs_of(*truth_of_deposits[::-1])
    assert [one.block_number for one in chain.escrow.search(1, FINAL, none_of_ours).deposits] == [4, 6]


@pytest.mark.parametrize(
    "logs",
    [[], [deposit(4)], [deposit(4), deposit(6), deposit(7)], [deposit(4), deposit(6, agent="another")]],
    ids=["none", "one left out", "one invented", "another agent"],
)
def test_deposits_that_two_nodes_tell_of_are_believed_against_a_third_which_is_named(nodes, truth, liar, logs, caplog):
    chain = tell(nodes, truth, liar, eth_getLogs=logs_of(*logs))
    for honest in (node for node in nodes if node is not nodes[liar]):
        honest.answers["eth_getLogs"] = logs_of(deposit(4), deposit(6))

    found = chain.escrow.search(1, FINAL, none_of_ours)

    assert [(one.block_number, one.named_agent) for one in found.deposits] == [(4, "agent"), (6, "agent")]
    assert found.is_disputed
    about = f"the escrow's events in blocks 1 to {FINAL}"
    assert chain.inspector.take_contradictions() == [Contradiction(liar + 1, about)]
    assert f"evm-localnet, node {liar + 1} of 3 contradicts the others about {about}" in caplog.messages
    assert nodes[liar].url not in caplog.text


def test_what_all_nodes_tell_of_is_not_disputed(nodes, truth):
    chain = tell(nodes, truth, 0, eth_getLogs=logs_of(deposit(4)))
    for node in nodes:
        node.answers["eth_getLogs"] = logs_of(deposit(4))

    assert not chain.escrow.search(1, FINAL, none_of_ours).is_disputed
    assert chain.inspector.take_contradictions() == []


def test_a_node_that_is_behind_does_not_say_that_there_are_no_deposits(nodes, truth, liar):
    chain = tell(nodes, truth, liar, eth_getLogs=[], eth_getBlockByNumber=None)
    for honest in (node for node in nodes if node is not nodes[liar]):
        honest.answers["eth_getLogs"] = logs_of(deposit(4))

    assert [one.named_agent for one in chain.escrow.search(1, FINAL, none_of_ours).deposits] == ["agent"]
    with pytest.raises(ChainUnavailable):
        adapter(nodes[liar]).escrow.search(1, FINAL, none_of_ours)


@pytest.mark.parametrize(
    "log",
    [
        deposit(4, address=TOKEN),
        deposit(4, topics=[hash_of(1), *deposit(4)["topics"][1:]]),
        deposit(FINAL + 1),
        deposit(4, data="0x"),
        deposit(4, topics=[]),
        "a log",
    ],
    ids=["another contract's", "another event", "out of range", "no data", "no topics", "no log"],
)
def test_what_is_not_the_escrows_deposit_is_not_believed(nodes, truth, log):
    nodes[0].answers = truth.answers(eth_getLogs=[log])

    with pytest.raises(ChainUnavailable):
        adapter(nodes[0]).escrow.search(1, FINAL, none_of_ours)


# --- Holdings, sending ------------------------------------------------------------------------------------------------
def void(number: int) -> dict[str, Any]:
    where = {"transactionHash": TX, "logIndex": "0x0", "blockNumber": hex(number), "blockHash": hash_of(number)}
    return {"address": ESCROW, "topics": [VOIDED, hash_of(7)], "data": "0x", **where}


@pytest.mark.parametrize("times", [1, 2, 3])
def test_what_one_node_says_of_blocks_that_are_not_final_stops_nothing_however_often_it_says_so(
    nodes, truth, liar, times
):
    chain = tell(nodes, truth, liar, eth_getLogs=logs_of(*[void(FINAL + 1)] * times))
    honest = [node for node in nodes if node is not nodes[liar]]
    for node in honest:
        node.answers["eth_getLogs"] = []
    assert list(chain.escrow.peek(FINAL + 1, FINAL + 2).block_numbers()) == []

    honest[0].answers["eth_getLogs"] = logs_of(void(FINAL + 1))
    assert [one.escrow_id for one in chain.escrow.peek(FINAL + 1, FINAL + 2).voids] == [hash_of(7)]


def test_holdings_that_two_nodes_contradict_each_other_about_are_unknown(nodes, truth, liar):
    with pytest.raises(ChainUnavailable):
        tell(nodes[:2], truth, liar, eth_call=word(5)).escrow.find_holdings(FINAL)


@pytest.mark.parametrize("lie", [word(5), NOT_THERE], ids=["other holdings", "none"])
def test_holdings_are_what_two_nodes_say(nodes, truth, liar, lie):
    assert tell(nodes, truth, liar, eth_call=lie).escrow.find_holdings(FINAL) == {Asset.USDC: 0}


@pytest.mark.parametrize(
    "message",
    [
        "already known",
        "ALREADY_EXISTS: already known",
        "AlreadyKnown, transaction hash is already known",
        "Known transaction",
        "transaction already imported",
        "transaction already in mempool",
        "nonce too low: next nonce 7, tx nonce 3",
        "Nonce too low. Expected nonce to be 8 but got 7.",
        "OldNonce, Current nonce: 7",
        "Transaction nonce is too low. Try incrementing the nonce.",
    ],
)
def test_a_node_that_has_a_transaction_already_has_taken_it(nodes, message):
    nodes[0].answers["eth_sendRawTransaction"] = {"code": -32000, "message": message}

    assert adapter(nodes[0]).broadcaster.send([b"\x02"]) == [None]


@pytest.mark.parametrize(
    "message",
    ["insufficient funds for gas", "replacement transaction underpriced", "unknown transaction type", "nonce too high"],
)
def test_what_no_node_takes_is_refused_for_the_first_ones_reason(nodes, message):
    refusal = {"code": -32000, "message": message}
    nodes[0].answers["eth_sendRawTransaction"] = nodes[1].answers["eth_sendRawTransaction"] = refusal
    assert adapter(*nodes).broadcaster.send([b"\x02"]) == [message]

    nodes[1].answers["eth_sendRawTransaction"] = TX
    assert adapter(*nodes).broadcaster.send([b"\x02"]) == [None]

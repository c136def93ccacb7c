"""A node that lies about what a chain asks for makes payments neither dear nor, for long, slow."""

from decimal import Decimal
from typing import Any

import pytest

from chains.evm.eip1559 import read_call
from chains.port import ChainUnavailable, Submitter
from tests.support.fake_nodes import BASE_FEE_WEI, NOT_THERE, TIP_WEI, Truth, adapter, block, fee_history, tell

GWEI = 10**9
LEAST_TIP_WEI = 10**6


@pytest.mark.parametrize("lie_wei", [0, 10**6, 990 * GWEI], ids=["nothing", "0.001 gwei", "990 gwei"])
def test_a_node_alone_cannot_make_payments_dear_by_its_tip(nodes, truth, liar, lie_wei):
    lie = {"eth_feeHistory": lambda count, number, _: fee_history(count, number, lie_wei)}

    state = tell(nodes[:2], truth, liar, **lie).observer.observe()

    assert state["maxPriorityFeePerGas"] == max(min(lie_wei, TIP_WEI), LEAST_TIP_WEI)
    assert state["maxFeePerGas"] == 2 * BASE_FEE_WEI + state["maxPriorityFeePerGas"]


@pytest.mark.parametrize("said_gwei", [6, 990])
def test_no_tip_is_above_the_highest_of_its_chain_whoever_asks_for_it(nodes, truth, said_gwei):
    high = {"eth_feeHistory": lambda count, number, _: fee_history(count, number, said_gwei * GWEI)}
    for node in nodes:
        node.answers = truth.answers(**high)

    assert adapter(*nodes).observer.observe()["maxPriorityFeePerGas"] == 5 * GWEI
    alone = adapter(nodes[0], max_tip_gwei=Decimal("0.5"))
    assert alone.observer.observe()["maxPriorityFeePerGas"] == GWEI // 2


@pytest.mark.parametrize("lie_wei", [0, 1, 10**6 * GWEI], ids=["nothing", "1 wei", "more than all"])
def test_a_node_alone_says_nothing_of_the_base_fee(nodes, truth, liar, lie_wei):
    def other(number: str, *_: Any) -> Any:
        return truth.block(number) | {"baseFeePerGas": hex(lie_wei)}

    lying = tell(nodes, truth, liar, eth_getBlockByNumber=other)
    assert lying.observer.observe()["maxFeePerGas"] == 2 * BASE_FEE_WEI + TIP_WEI
    with pytest.raises(ChainUnavailable):
        adapter(*nodes[:2]).observer.observe()


def test_no_fees_are_known_while_only_one_of_several_nodes_says_any(nodes, truth):
    chain = tell(nodes[:2], truth, 0, eth_feeHistory=NOT_THERE)

    with pytest.raises(ChainUnavailable):
        chain.observer.observe()


def test_blocks_in_which_nobody_tips_do_not_make_payments_wait(nodes, truth):
    def empty(count: str, number: str, _: Any) -> Any:
        said = fee_history(count, number, 0)
        return said | {"gasUsedRatio": [0.0, 0.5, 0.0, 0.0], "reward": [["0x0"], [hex(TIP_WEI)], ["0x0"], ["0x0"]]}

    assert tell(nodes[:1], truth, 0, eth_feeHistory=empty).observer.observe()["maxPriorityFeePerGas"] == TIP_WEI


@pytest.mark.parametrize("changes", [{"oldestBlock": "0x1"}, {"reward": None}, {"reward": [["0x1"]]}])
def test_fees_of_other_blocks_or_of_another_form_are_no_answer(nodes, truth, changes):
    def other(count: str, number: str, _: Any) -> Any:
        return fee_history(count, number) | changes

    with pytest.raises(ChainUnavailable):
        tell(nodes[:1], truth, 0, eth_feeHistory=other).observer.observe()


def test_a_node_that_stopped_following_the_chain_says_nothing_of_fees(nodes, truth):
    yesterday = Truth(truth.tx, truth.order, truth.time - 86_400)
    yesterday.head = 3
    chain = tell(nodes, truth, 0, eth_getBlockByNumber=yesterday.block)

    assert chain.observer.observe()["height"] == truth.head
    with pytest.raises(ChainUnavailable):
        adapter(*nodes[:2]).observer.observe()


def test_an_old_block_that_a_node_calls_the_newest_is_not_gone_by(nodes, truth, liar):
    truth.head = 10**6

    def lie(number: str, *_: Any) -> Any:
        return block(5, truth.time) if number == "latest" else truth.block(number)

    with pytest.raises(ChainUnavailable):
        tell(nodes[:2], truth, liar, eth_getBlockByNumber=lie).observer.observe()


@pytest.mark.parametrize("claimed", [10**6, 13, 12, 11, 3])
def test_fees_are_known_while_one_node_lies_of_its_newest_block_and_another_is_one_behind(nodes, truth, claimed):
    behind = Truth(truth.tx, truth.order, truth.time - 1)
    behind.head = truth.head - 1

    def lie(number: str, *_: Any) -> Any:
        # A base fee of its own for what it claims.
        wanted = claimed if number == "latest" else int(number, 16)
        return block(wanted, truth.time) | {"baseFeePerGas": "0x1"}

    chain = tell(nodes, truth, 0, eth_getBlockByNumber=lie)
    nodes[2].answers = behind.answers()

    assert chain.observer.observe()["height"] == behind.head
    assert chain.observer.observe()["maxFeePerGas"] == 2 * BASE_FEE_WEI + TIP_WEI


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_chain_that_made_no_block_for_a_while_can_be_paid_on(nodes, truth, count):
    truth.time -= 200
    for node in nodes:
        node.answers = truth.answers()

    assert adapter(*nodes[:count]).observer.observe()["height"] == truth.head


def test_an_old_block_that_a_node_calls_the_newest_is_not_gone_by_on_a_quiet_chain_either(nodes, truth, liar):
    truth.head, truth.time = 10**6, truth.time - 200

    def lie(number: str, *_: Any) -> Any:
        return truth.block(hex(5) if number == "latest" else number)

    with pytest.raises(ChainUnavailable):
        tell(nodes[:2], truth, liar, eth_getBlockByNumber=lie).observer.observe()


def test_what_tips_the_most_and_is_stuck_can_still_get_past_itself(nodes, truth):
    chain = tell(nodes[:2], truth, 0)
    submitter = Submitter(0, chain.preparer.relayer_address(0), 0)
    state = {"maxFeePerGas": 20 * GWEI, "maxPriorityFeePerGas": 5 * GWEI}
    first = chain.nonces.prepare_filler(submitter, state)

    raised = chain.nonces.raise_fee(first.raw, submitter, state)

    assert raised is not None
    *_, fees = read_call(raised.raw)
    assert (fees.max_fee_per_gas, fees.max_priority_fee_per_gas) == (22.5 * GWEI, 5.625 * GWEI)


def test_what_a_liar_made_slow_tips_the_most_after_a_few_raises(nodes, truth):
    chain = tell(nodes[:2], truth, 0, eth_feeHistory=lambda count, number, _: fee_history(count, number, 0))
    submitter, state = Submitter(0, chain.preparer.relayer_address(0), 0), chain.observer.observe()
    signed = chain.nonces.prepare_filler(submitter, state)
    tips = []

    for _ in range(8):
        raised = chain.nonces.raise_fee(signed.raw, submitter, state)
        assert raised is not None
        signed = raised
        *_, fees = read_call(signed.raw)
        tips.append(fees.max_priority_fee_per_gas)
        # The base fee may double all the same.
        assert fees.max_fee_per_gas >= 2 * BASE_FEE_WEI + fees.max_priority_fee_per_gas

    assert tips[:7] == [LEAST_TIP_WEI * 4**raises for raises in range(1, 7)] + [5 * GWEI]
    assert tips[7] == 5 * GWEI * 9 // 8


# --- Gas money --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("lie_wei", [0, 10**30], ids=["nothing", "more than there is"])
def test_a_node_alone_does_not_say_what_a_relayer_has_for_gas(nodes, truth, liar, lie_wei):
    had = {"eth_getBalance": hex(10**18)}
    for index, node in enumerate(nodes):
        node.answers = truth.answers(**(had if index != liar else {"eth_getBalance": hex(lie_wei)}))

    assert adapter(*nodes).observer.observe_relayers(["0xrelayer"])["0xrelayer"].balance == 1
    # Of two the lower one counts: what is approved, is paid for.
    two = adapter(*nodes[:2]).observer.observe_relayers(["0xrelayer"])["0xrelayer"]
    assert two.balance == min(1, lie_wei)
    nodes[0].answers["eth_getBalance"] = NOT_THERE
    with pytest.raises(ChainUnavailable):
        adapter(*nodes[:2]).observer.observe_relayers(["0xrelayer"])


@pytest.mark.parametrize("lie", ["0x0", hex(10**9), NOT_THERE], ids=["none", "more than there are", "nothing"])
def test_a_node_alone_does_not_say_how_many_nonces_a_relayer_has_used(nodes, truth, liar, lie):
    for index, node in enumerate(nodes):
        said = lie if index == liar else hex(7)
        node.answers = truth.answers(eth_getBalance=hex(10**18), eth_getTransactionCount=said)

    nonces = adapter(*nodes).observer.observe_relayers(["0xrelayer"])["0xrelayer"].nonces

    assert nonces is not None
    assert nonces.mined == 7


def test_what_a_block_takes_while_nodes_are_asked_counts_twice_rather_than_not_at_all(nodes, truth):
    nodes[0].answers = truth.answers(eth_getBalance=hex(10**18))

    adapter(nodes[0]).observer.observe_relayers(["0xrelayer"])

    asked = nodes[0].asked
    assert max(at for at, one in enumerate(asked) if one == "eth_getTransactionCount") < asked.index("eth_getBalance")

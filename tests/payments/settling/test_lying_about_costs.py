"""A node alone can neither inflate a transaction's cost nor hide it."""

import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from chains.port import Finality, GasCost, Submitter, TransactionQuery
from foundation.kernel.times import utc_now
from payments.settling.transaction_costs import record_costs
from tests.support.fake_chain import COST
from tests.support.fake_nodes import NOT_THERE, Node, Truth, adapter, hash_of, open_nodes, order_of, receipt
from tests.support.scenes import transaction_of
from tests.support.transaction_costs import settle, spent

GWEI = 10**9
TX = "0x" + "ab" * 32


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    with open_nodes(3) as made:
        yield made


def said(gas_used: int = 80_000, **changes: Any) -> dict[str, Any]:
    facts = {"gasUsed": hex(gas_used), "effectiveGasPrice": hex(2 * GWEI)}
    return receipt(TX, []) | facts | changes


def costs_told(nodes: list[Node], *answers: Any, block_number: int | None = 5) -> dict[str, GasCost]:
    truth = Truth(TX, order_of(), time.time())
    for node, answer in zip(nodes, answers, strict=True):
        node.answers = truth.answers(eth_getTransactionReceipt=answer, eth_getTransactionCount=hex(1))
    sought = TransactionQuery(TX, b"", Submitter(0, "0xrelayer", 0), [], block_number, hash_of(5))
    return adapter(*nodes).prover.find_costs([sought], Finality(10, utc_now(), newest=12))


HONEST = {TX: GasCost(Decimal("0.00016"))}


def test_a_cost_is_gas_times_its_price_and_what_a_rollup_takes_on_top(nodes):
    assert costs_told(nodes[:1], said()) == HONEST
    assert costs_told(nodes[:1], said(l1Fee=hex(GWEI))) == {TX: GasCost(Decimal("0.000160001"))}


@pytest.mark.parametrize("lie", [said(0), said(10**9), said(l1Fee=hex(10**21)), None, NOT_THERE, {}, said(gasUsed=-1)])
def test_a_node_alone_can_neither_inflate_a_cost_nor_hide_it(nodes, lie):
    for answers in ((lie, said(), said()), (said(), lie, said())):
        assert costs_told(nodes, *answers) == HONEST
    # Of two nodes that contradict each other neither is believed: it stays at its most.
    assert costs_told(nodes[:2], lie, said()) == {}


def test_a_receipt_from_a_block_that_is_not_final_tells_no_cost_yet(nodes):
    assert costs_told(nodes[:2], *[said(blockNumber=hex(11))] * 2) == {}


def test_only_what_is_in_no_block_while_its_nonce_is_used_has_cost_nothing(nodes):
    assert costs_told(nodes[:2], None, None, block_number=None) == {TX: GasCost(Decimal(0))}
    # In a block, as the chain itself said: a node that forgets receipts does not tell.
    assert costs_told(nodes[:2], None, None, block_number=5) == {}


def test_a_costly_answer_is_counted_once_however_often_it_is_noted(scene):
    payment = scene.pay()
    settle(scene, payment)
    row = transaction_of(payment)

    assert [record_costs({row.pk: GasCost(COST)}), record_costs({row.pk: GasCost(COST)})] == [1, 0]
    assert spent(scene) == (COST, COST)

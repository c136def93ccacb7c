"""The search for deposits on Solana: slots, pages, and nodes that contradict each other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import Any

import pytest

from chains.port import ChainUnavailable, Contradiction
from chains.rpc.node import LONGEST_LOOK_S
from foundation.kernel.assets import Asset
from tests.support.deposits import none_of_ours
from tests.support.fake_nodes import Node, open_nodes
from tests.support.fake_solana_nodes import FINAL, HOLDERS, MEMO_PROGRAM, MINTS, Truth, account, address, some_tx, tell
from tests.support.slow_nodes import FEW, slow_down
from tests.support.solana_deposits import find

SOL, USDC, PYUSD = Asset.SOL, Asset.USDC, Asset.PYUSD
MILLION = 10**6
NO_HISTORY = {"code": -32011, "message": "Transaction history is not available from this node"}


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    with open_nodes(3) as made:
        yield made


@pytest.fixture(params=[0, 1], ids=["the first lies", "the second lies"])
def liar(request) -> int:
    return int(request.param)


# --- The range, and pages ---------------------------------------------------------------------------------------------
def test_deposits_are_found_in_the_slots_that_are_asked_for_in_order(node, truth):
    for number, slot in enumerate((10, 20, 20, 30, 40), 1):
        truth.land(number, slot, (USDC, number * MILLION, (number + 1) * MILLION))
    chain = tell([node], truth)

    assert [slot for slot, _, _ in find(chain, 20, 30)] == [20, 20, 30]
    assert [slot for slot, _, _ in find(chain, 11, 19)] == []
    assert [slot for slot, _, _ in find(chain, 1, FINAL)] == [10, 20, 20, 30, 40]


def test_a_long_history_is_gone_through_once_however_many_steps_it_takes_to_come_up(node, truth):
    # Five pages below the newest ones.
    truth.first = 0
    for number in range(1, 5_001):
        truth.land(number, 100 + number // 10, (USDC, number, number + (number % 500 == 0)))
    chain = tell([node], truth)

    found = [one for first in range(101, 601, 10) for one in find(chain, first, first + 9)]

    assert [slot for slot, _, _ in found] == list(range(150, 601, 50))
    pages = [call for call in _calls(node) if call["method"] == "getSignaturesForAddress"]
    of_usdc = [call for call in pages if call["params"][0] == HOLDERS[USDC]]
    # Down once, then one or two pages for each of fifty steps.
    assert len(of_usdc) < 6 + 2 * 50


def test_a_node_that_has_forgotten_where_it_was_says_nothing_and_starts_again(node, truth):
    for number in range(1, 101):
        truth.land(number, 100 + number, (USDC, number, number + 1))
    chain = tell([node], truth)
    assert len(find(chain, 101, 110)) == 10

    forgotten = truth.entries[HOLDERS[USDC]]
    truth.entries[HOLDERS[USDC]] = [one for one in forgotten if one["slot"] <= 130]
    with pytest.raises(ChainUnavailable):
        find(chain, 111, 120)
    assert len(find(chain, 111, 120)) == 10


def test_a_deposit_is_not_lost_where_one_of_several_machines_behind_an_address_is_not_so_far(node, truth):
    truth.land(1, 985, (USDC, 0, MILLION))
    for number in range(2, 40):
        truth.land(number, 993, (USDC, MILLION, MILLION))
    known = {holder: [one for one in there if one["slot"] <= 992] for holder, there in truth.entries.items()}
    other = replace(truth, entries=known)
    chain = tell(
        [node],
        truth,
        0,
        getSignaturesForAddress=lambda holder, config: (other if "before" in config else truth).page(holder, config),
    )

    with pytest.raises(ChainUnavailable):
        find(chain, 970, 992)

    node.answers = truth.answers()
    assert find(chain, 970, 992) == [(985, "agent", 1)]


def test_a_node_that_tells_the_same_page_for_ever_is_not_waited_for(node, truth, monkeypatch):
    monkeypatch.setattr("chains.solana.account_history._MOST_PAGES", 5)
    entry = {"signature": some_tx(1), "slot": 500, "err": None}
    truth.land(1, 500, (USDC, 0, MILLION))
    chain = tell([node], truth, 0, getSignaturesForAddress=lambda *_: [entry] * 3)

    with pytest.raises(ChainUnavailable):
        find(chain)


def test_more_transactions_than_can_be_looked_at_at_once_make_a_range_too_long(node, truth):
    for number in range(1, 1_101):
        truth.land(number, 100 + number // 600, (USDC, number, number + 1))
    chain = tell([node], truth)

    with pytest.raises(ChainUnavailable):
        find(chain, 100, 101)
    assert len(find(chain, 100, 100)) + len(find(chain, 101, 101)) == 1_100


# --- Pages without an end ---------------------------------------------------------------------------------------------
def test_a_node_that_drags_pages_out_for_ever_is_asked_a_few_times_named_and_then_left_alone(nodes, truth, liar):
    numbers = count(10**6, -1)

    def page(_wanted: str, config: dict[str, Any]) -> Any:
        start = [config["before"]] if "before" in config else []
        known = [entry for tx in start for entry in pages[tx]]
        new = [{"signature": some_tx(next(numbers)), "slot": 500, "err": None} for _ in range(3)]
        answer = [*known, *new]
        pages[answer[-2]["signature"]] = [answer[-1]]
        return answer

    pages: dict[str, list[Any]] = {}
    truth.land(1, 500, (USDC, 0, MILLION))
    chain = tell(nodes, truth, liar, getSignaturesForAddress=page)
    slow_down(chain, nodes[liar])

    for _ in range(3):
        assert [one.block_number for one in chain.escrow.search(1, FINAL, none_of_ours).deposits] == [500]
    # The check of its chain, and the question where things are held, which comes before the look.
    assert len(nodes[liar].requests) <= 2 + FEW
    assert chain.inspector.take_contradictions() == [
        Contradiction(liar + 1, f"what can be told within {LONGEST_LOOK_S} s")
    ]


def test_a_payment_that_is_settled_between_two_looks_does_not_make_nodes_differ(nodes, truth):
    paid = truth.land(1, 500, (USDC, MILLION, 0))
    settled: set[str] = set()

    def find_ours(txs: Sequence[str]) -> set[str]:
        found = settled & set(txs)
        settled.add(paid)
        return found

    chain = tell(nodes, truth)
    found = chain.escrow.search(1, FINAL, find_ours)

    assert ([one.tx for one in found.outflows], found.is_disputed) == ([paid], False)
    assert chain.inspector.take_contradictions() == []
    assert chain.escrow.search(1, FINAL, find_ours).outflows == []


# --- Nodes that contradict each other, are behind or have forgotten ---------------------------------------------------
def test_what_two_nodes_say_of_deposits_is_believed_against_a_third_which_is_named(nodes, truth, liar):
    truth.land(1, 500, (USDC, 0, MILLION))
    truth.land(2, 501, (USDC, MILLION, 3 * MILLION))
    lies = [Truth() for _ in range(4)]
    lies[0].land(1, 500, (USDC, 0, MILLION))
    lies[1].land(1, 500, (USDC, 0, MILLION))
    lies[1].land(2, 501, (USDC, MILLION, 4 * MILLION))
    lies[2].land(1, 500, (USDC, 0, MILLION), memos=[(MEMO_PROGRAM, b"another")])
    lies[2].land(2, 501, (USDC, MILLION, 3 * MILLION))

    honest = [(500, "agent", 1), (501, "agent", 2)]
    for lie in lies:
        with pytest.raises(ChainUnavailable):
            find(tell(nodes[:2], truth, liar, **lie.answers()))
        chain = tell(nodes, truth, liar, **lie.answers())
        assert find(chain) == honest
        assert chain.escrow.search(1, FINAL, none_of_ours).is_disputed
        about = f"deposits and outflows in slots 1 to {FINAL}"
        assert chain.inspector.take_contradictions() == [Contradiction(liar + 1, about)]
    assert find(tell(nodes, truth)) == honest
    assert not tell(nodes, truth).escrow.search(1, FINAL, none_of_ours).is_disputed


UNABLE: dict[str, dict[str, Any]] = {
    "is behind": {"getSlot": lambda _: FINAL - 1, "getSignaturesForAddress": lambda *_: []},
    "has forgotten": {"getFirstAvailableBlock": 2, "getSignaturesForAddress": lambda *_: []},
    "keeps no history": {"getSignaturesForAddress": NO_HISTORY},
    "lost the transaction": {"getTransaction": None},
    "has it elsewhere": {"getTransaction": lambda tx, _: {**_transaction(tx), "slot": 501}},
    "tells of another": {"getTransaction": lambda *_: _transaction(some_tx(9))},
    "tells no balances": {"getTransaction": lambda tx, _: {**_transaction(tx), "meta": None}},
    "tells too few balances": {"getTransaction": lambda tx, _: _with(tx, preBalances=[1])},
    "tells negative balances": {"getTransaction": lambda tx, _: _with(tx, preBalances=[-1] * 4)},
    "tells amounts as numbers": {
        "getTransaction": lambda tx, _: _with(
            tx, postTokenBalances=[{"accountIndex": 1, "mint": str(MINTS[USDC]), "uiTokenAmount": {"amount": 1.0}}]
        )
    },
    "does not have the account in it": {
        "getTransaction": lambda tx, _: _transaction(tx) | {"transaction": {"signatures": [tx], "message": {}}}
    },
    "tells of another mint": {
        "getTransaction": lambda tx, _: _with(
            tx, postTokenBalances=[{"accountIndex": 1, "mint": str(MINTS[PYUSD]), "uiTokenAmount": {"amount": "1"}}]
        )
    },
    "tells the oldest first": {
        "getSignaturesForAddress": lambda *_: [
            {"signature": some_tx(number), "slot": 400 + number, "err": None} for number in (1, 2)
        ]
    },
    "tells no slots": {"getSignaturesForAddress": lambda *_: [{"signature": some_tx(1), "err": None}]},
    "tells no ids": {"getSignaturesForAddress": lambda *_: [{"signature": "tx", "slot": 500, "err": None}]},
}


def _transaction(tx: str) -> dict[str, Any]:
    made = Truth()
    made.land(1, 500, (USDC, 0, MILLION))
    found: dict[str, Any] = made.transactions[some_tx(1)]
    return found if tx == some_tx(1) else found | {"transaction": {"signatures": [tx]}}


def _with(tx: str, **changes: Any) -> dict[str, Any]:
    found = _transaction(tx)
    return {**found, "meta": {**found["meta"], **changes}}


@pytest.mark.parametrize("lies", UNABLE.values(), ids=UNABLE.keys())
def test_a_node_that_cannot_tell_does_not_say_that_there_are_no_deposits(nodes, truth, liar, lies):
    tx = truth.land(1, 500, (USDC, 0, MILLION))
    # So that what the others say of their transaction is what this one makes up.
    truth.transactions[tx] = _transaction(tx)
    honest = [(500, "agent", Decimal(1))]

    assert find(tell(nodes, truth, liar, **lies)) == honest
    with pytest.raises(ChainUnavailable):
        find(tell(nodes[:2], truth, liar, **lies))
    with pytest.raises(ChainUnavailable):
        find(tell(nodes[:1], truth, 0, **lies))


def test_where_something_is_held_is_not_one_nodes_word(nodes, truth, liar):
    other = Truth()
    other.accounts[str(MINTS[PYUSD])] = account(b"", str(address()))

    with pytest.raises(ChainUnavailable):
        find(tell(nodes[:2], truth, liar, **other.answers()))
    assert find(tell(nodes, truth, liar, **other.answers())) == []


# --- Holdings ---------------------------------------------------------------------------------------------------------
def _calls(node: Node) -> Iterator[dict[str, Any]]:
    for request in node.requests:
        yield from request if isinstance(request, list) else [request]

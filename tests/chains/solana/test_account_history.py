"""Going through an account's transactions page by page: none is left out, and what does not go on is not the end."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from chains.port import ChainUnavailable
from chains.rpc.nodes import Nodes
from chains.solana.account_history import History, find_oldest_slot
from foundation.kernel.assets import Asset
from tests.support.fake_nodes import Node
from tests.support.fake_solana_nodes import FINAL, HOLDERS, Truth, some_tx

HOLDER = HOLDERS[Asset.USDC]


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    yield made
    made.close()


def long(length: int, first: int = 500, in_a_slot: int = 3) -> Truth:
    """Make a chain with so many transactions, the oldest first, of which some share a slot."""
    truth = Truth()
    truth.entries[HOLDER] = [
        {"signature": some_tx(number), "slot": first + (number - 1) // in_a_slot, "err": None}
        for number in range(length, 0, -1)
    ]
    return truth


def without(truth: Truth, *numbers: int) -> Truth:
    """Make a node of the same chain that does not know some of its transactions."""
    unknown = {some_tx(number) for number in numbers}
    kept = [one for one in truth.entries[HOLDER] if one["signature"] not in unknown]
    return replace(truth, entries={HOLDER: kept})


def history(node: Node, truth: Truth, **lies: Any) -> History:
    node.answers = truth.answers(**lies)
    return History(Nodes((node.url,)))


def found(history: History, newest_slot: int = FINAL, oldest_slot: int = 1) -> list[str]:
    (walk,) = history.walk([HOLDER], newest_slot=newest_slot, oldest_slot=oldest_slot)
    return [entry.tx for entry in walk.entries]


def oldest(node: Node, truth: Truth, **lies: Any) -> int | None:
    return find_oldest_slot(history(node, truth, **lies).node, HOLDER)


# The first page has twenty, those behind it a thousand and one that is known already.
LENGTHS = [0, 1, 2, 3, 19, 20, 21, 1_017, 1_018, 1_019, 1_020, 1_021, 2_018]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("in_a_slot", [1, 3, 5_000])
def test_each_transaction_is_found_once_wherever_pages_end(node, length, in_a_slot):
    truth = long(length, first=1, in_a_slot=in_a_slot)
    truth.final = 3_000
    newest_first = [some_tx(number) for number in range(length, 0, -1)]

    assert found(history(node, truth), newest_slot=3_000) == newest_first
    assert oldest(node, truth) == (1 if length else None)


def test_what_comes_in_meanwhile_changes_nothing(node):
    truth = long(1_500)

    def page(wanted: str, config: dict[str, Any]) -> Any:
        answer = truth.page(wanted, config)
        new = {"signature": some_tx(10_000 + len(truth.entries[HOLDER])), "slot": FINAL, "err": None}
        truth.entries[HOLDER].insert(0, new)
        return answer

    there = history(node, truth, getSignaturesForAddress=page)

    for _ in range(2):
        assert found(there, newest_slot=FINAL - 1) == [some_tx(number) for number in range(1_500, 0, -1)]


@pytest.mark.parametrize("final", [900, FINAL], ids=["and is behind", "and is as far"])
@pytest.mark.parametrize("unknown", [(1_481, 1_482), (482, 483)], ids=["on the second page", "on the third page"])
def test_a_page_of_a_machine_behind_the_same_address_that_does_not_know_is_not_the_end(node, unknown, final):
    truth = long(1_500)
    other = replace(without(truth, *unknown), final=final)

    def page(wanted: str, config: dict[str, Any]) -> Any:
        is_there = config.get("before", "") in [some_tx(number) for number in unknown]
        return (other if is_there else truth).page(wanted, config)

    there = history(node, truth, getSignaturesForAddress=page)
    with pytest.raises(ChainUnavailable):
        found(there)

    node.answers = truth.answers()
    assert len(found(there)) == 1_500


@pytest.mark.parametrize("length", [2, 3, 20, 1_500])
def test_an_empty_page_behind_a_transaction_is_not_the_end(node, length):
    truth = long(length)
    there = history(
        node,
        truth,
        getSignaturesForAddress=lambda holder, config: [] if "before" in config else truth.page(holder, config),
    )

    with pytest.raises(ChainUnavailable):
        found(there)


@pytest.mark.parametrize(
    "change",
    [
        lambda page: page[1:],
        lambda page: [page[1], page[0], *page[2:]],
        lambda page: [{**page[0], "slot": page[0]["slot"] + 1}, *page[1:]],
        lambda page: [{**page[0], "err": "AccountInUse"}, *page[1:]],
    ],
    ids=["what comes later", "another order", "another slot", "a failure"],
)
def test_a_page_that_does_not_begin_with_what_the_last_one_ended_with_says_nothing(node, change):
    truth = long(1_500)

    def page(wanted: str, config: dict[str, Any]) -> Any:
        honest = truth.page(wanted, config)
        return change(honest) if "before" in config else honest

    with pytest.raises(ChainUnavailable):
        found(history(node, truth, getSignaturesForAddress=page))


def test_a_page_is_asked_only_of_who_is_as_far_as_it_begins(node):
    found(history(node, long(1_500)), newest_slot=510)

    asked = [call["params"][1] for call in node.requests]
    assert [call.get("before") for call in asked] == [None, some_tx(1_482), some_tx(483), some_tx(2)]
    assert [call["minContextSlot"] for call in asked] == [510, 993, 660, 510]


# --- The oldest -------------------------------------------------------------------------------------------------------
def test_the_oldest_slot_is_not_where_a_machine_stops_that_does_not_know(node):
    truth = long(1_500)
    other = without(truth, 501, 502)

    def page(wanted: str, config: dict[str, Any]) -> Any:
        return (other if "before" in config else truth).page(wanted, config)

    with pytest.raises(ChainUnavailable):
        oldest(node, truth, getSignaturesForAddress=page)
    assert oldest(node, truth) == 500


def test_the_oldest_slot_is_not_looked_for_for_ever(node, monkeypatch):
    monkeypatch.setattr("chains.solana.account_history._MOST_PAGES", 5)
    entry = {"signature": some_tx(1), "slot": 500, "err": None}

    with pytest.raises(ChainUnavailable):
        oldest(node, Truth(), getSignaturesForAddress=lambda *_: [entry] * 3)
    assert len(node.requests) == 5

"""What is paid on Solana takes the word of most nodes that can tell, what failed or is absent that of all."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from chains.port import TransactionQuery
from chains.solana.adapter import SolanaChain
from tests.support.fake_nodes import Node, open_nodes
from tests.support.fake_solana_nodes import FINAL, HEIGHT, NEWEST, Truth, blocks, some_tx, status, tell
from tests.support.fates import ABSENT, FAILED, GONE, PAID, UNKNOWN, LoneFate, lone_fates
from tests.support.lying_solana_nodes import OLD, finality, sought

ERROR = {"InstructionError": [3, {"Custom": 1}]}


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    with open_nodes(3) as made:
        yield made


def prove(chain: SolanaChain, *sought: TransactionQuery) -> dict[str, LoneFate]:
    return lone_fates(chain.prover.find_fates(sought, finality()))


@pytest.mark.parametrize(
    ("there", "fate"),
    [(status(900), PAID), (status(900, ERROR), FAILED), (None, GONE)],
    ids=["paid", "failed", "gone"],
)
def test_a_proof_is_what_nodes_say_that_can_tell(nodes, truth, liar, there, fate):
    one = sought(truth)
    truth.statuses[one.tx] = there
    assert prove(tell(nodes, truth), one) == {one.tx: fate}

    unable = {
        "is behind": replace(truth, final=FINAL - 1, statuses={}).answers(),
        "knows an older state": {"getSignatureStatuses": lambda *_: {"context": {"slot": FINAL - 1}, "value": [None]}},
        "answers as of before its own final block": {
            "getEpochInfo": {"absoluteSlot": NEWEST + 1, "blockHeight": HEIGHT + 30},
            "getSignatureStatuses": lambda *_: truth.context([None]),
        },
        "has forgotten": {"getFirstAvailableBlock": 701, "getSignatureStatuses": lambda *_: truth.context([None])},
        "has it not final yet": {"getSignatureStatuses": lambda *_: truth.context([status(900, None, "confirmed")])},
        "answers with an error": {"getSignatureStatuses": {"code": -32000, "message": "no history"}},
        "answers in another form": {"getSignatureStatuses": lambda *_: truth.context([{"slot": -1}])},
    }
    for how, lies in unable.items():
        assert prove(tell(nodes, truth, liar, **lies), one) == {one.tx: fate}, how
        assert prove(tell(nodes[:2], truth, liar, **lies), one) == {one.tx: UNKNOWN}, how
    for lie in (None, status(900), status(900, ERROR), status(899)):
        if lie != there:
            for count in (2, 3):
                lying = tell(nodes[:count], truth, liar, getSignatureStatuses=lambda *_, lie=lie: truth.context([lie]))
                # That it paid, two of three may say; that it failed, or never will be there, all must.
                said = PAID if (count, fate) == (3, PAID) else UNKNOWN
                assert prove(lying, one) == {one.tx: said}, lie


@pytest.mark.parametrize(
    "changes",
    [{"valid_until_height": HEIGHT}, {"valid_until_height": None}],
    ids=["its last block is the final one", "it does not expire"],
)
def test_what_can_still_land_is_absent_for_now(nodes, truth, changes):
    one = sought(truth, **changes)

    assert prove(tell(nodes, truth), one) == {one.tx: ABSENT}


def test_nobody_can_tell_that_something_is_absent_without_knowing_since_when_it_could_be_there(nodes, truth):
    one = sought(truth, valid_from_block=None)
    chain = tell(nodes, truth)
    assert prove(chain, one) == {one.tx: UNKNOWN}

    truth.statuses[one.tx] = status(900)
    assert prove(chain, one) == {one.tx: PAID}


def test_what_is_past_its_last_block_on_one_node_alone_is_absent_for_now(nodes, truth, liar):
    one = sought(truth)
    chain = tell(nodes, truth, liar, **replace(truth, height=850).answers())

    assert prove(chain, one) == {one.tx: ABSENT}


@pytest.mark.parametrize("commitment", ["finalized", "processed"])
def test_what_was_signed_as_good_for_too_short_is_not_gone_before_its_blockhash_is(nodes, truth, liar, commitment):
    one = sought(truth)

    def usable(blockhash: str, config: Any) -> Any:
        return truth.context(blockhash == OLD and config["commitment"] == commitment)

    assert prove(tell(nodes, truth, liar, isBlockhashValid=usable), one) == {one.tx: ABSENT}
    assert prove(tell(nodes, truth), one) == {one.tx: GONE}


def test_a_node_says_how_far_it_is_before_it_says_what_is_absent(nodes, truth):
    one = sought(truth)
    prove(tell(nodes[:1], truth), one)

    asked = [method for method in nodes[0].asked if method != "getGenesisHash"]
    whole = ["getBlocksWithLimit", "getBlock", "getBlock"]
    position = ["getFirstAvailableBlock", "getEpochInfo"]
    usable = ["isBlockhashValid", "isBlockhashValid"]
    assert asked == [*position, "getSignatureStatuses", *whole, *position, *usable, "getSignatureStatuses"]


def test_proofs_of_many_are_asked_for_together(nodes, truth):
    one = sought(truth)
    many = [replace(one, tx=some_tx(number)) for number in range(1, 301)]
    for number in range(1, 201):
        truth.statuses[some_tx(number)] = status(900)

    fates = prove(tell(nodes[:1], truth), *many)

    assert [fates[one.tx] for one in many] == [PAID] * 200 + [GONE] * 100
    assert len(nodes[0].requests) < 6
    assert nodes[0].asked.count("getBlocksWithLimit") == 1


HOLES: dict[str, dict[str, Any]] = {
    "misses some in between": {"getBlocksWithLimit": [*blocks(700, 800), *blocks(820, FINAL)]},
    "misses the first": {"getBlocksWithLimit": blocks(701, FINAL)},
    "misses the last": {"getBlocksWithLimit": blocks(700, 940)},
    "has none of them": {"getBlocksWithLimit": []},
    "does not list them": {"getBlocksWithLimit": {"code": -32001, "message": "Block 700 cleaned up"}},
    "lists other ones": {"getBlocksWithLimit": [600, *blocks(701, FINAL)]},
    "lists some twice": {"getBlocksWithLimit": [*blocks(700, 800), 800, *blocks(802, FINAL)]},
    "lists something else": {"getBlocksWithLimit": "blocks"},
    "does not have one that it lists": {"getBlock": {"code": -32004, "message": "Block not available"}},
    "has one that it lists no more": {"getBlock": None},
    "does not say how high they are": {"getBlock": lambda slot, _: Truth().header(slot) | {"blockHeight": None}},
    "does not say what they follow": {"getBlock": lambda slot, _: Truth().header(slot) | {"parentSlot": None}},
    "says of an older state which blockhashes are good": {
        "isBlockhashValid": {"context": {"slot": FINAL - 1}, "value": False}
    },
}


@pytest.mark.parametrize("lies", HOLES.values(), ids=HOLES.keys())
def test_a_node_whose_history_has_a_hole_cannot_tell_that_something_is_gone(nodes, truth, liar, lies):
    one = sought(truth)

    assert prove(tell(nodes, truth, liar, **lies), one) == {one.tx: GONE}
    assert prove(tell(nodes[:2], truth, liar, **lies), one) == {one.tx: UNKNOWN}
    assert prove(tell([nodes[liar]], truth, 0, **lies), one) == {one.tx: UNKNOWN}


def test_a_node_with_a_hole_is_heard_about_what_it_has(nodes, truth, liar):
    one = sought(truth)
    chain = tell(nodes, truth, liar, **HOLES["misses some in between"])
    said = iter([None, status(900)])
    nodes[liar].answers["getSignatureStatuses"] = lambda *_: truth.context([next(said)])

    assert prove(chain, one) == {one.tx: UNKNOWN}


def test_a_hole_elsewhere_says_nothing_about_what_was_good_before_or_after_it(nodes, truth):
    one, early, late = sought(truth), some_tx(1), some_tx(2)
    many = [
        replace(one, tx=early, valid_from_block=500, valid_until_height=560),
        one,
        replace(one, tx=late, valid_from_block=821, valid_until_height=899),
    ]
    listed = blocks(500, 800) + blocks(820, FINAL)
    chain = tell(nodes[:1], truth, 0, getBlocksWithLimit=lambda first, *_: [slot for slot in listed if slot >= first])

    assert prove(chain, *many) == {early: UNKNOWN, one.tx: UNKNOWN, late: GONE}

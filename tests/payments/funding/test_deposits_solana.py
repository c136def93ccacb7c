"""What came into the escrow's accounts on Solana, and what they hold: read from the history of every node."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from allowance.kernel.assets import Asset
from chains.port import ChainUnavailable
from tests.support.deposits import none_of_ours
from tests.support.fake_nodes import Node
from tests.support.fake_solana_nodes import (
    CLOCK,
    FINAL,
    HOLDERS,
    MEMO_PROGRAM,
    MINTS,
    OLD_MEMO_PROGRAM,
    RENT,
    Truth,
    account,
    adapter,
    address,
    holder_account,
    some_tx,
    tell,
)

SOL, USDC, PYUSD = Asset.SOL, Asset.USDC, Asset.PYUSD
MILLION = 10**6
NO_HISTORY = {"code": -32011, "message": "Transaction history is not available from this node"}


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    made = [Node(), Node(), Node()]
    yield made
    for node in made:
        node.close()


@pytest.fixture(params=[0, 1], ids=["the first lies", "the second lies"])
def liar(request) -> int:
    return int(request.param)


def find(chain: Any, first: int = 1, last: int = FINAL) -> list[Any]:
    """Find deposits: slot, named agent, amount."""
    found = chain.search_escrow(first, last, none_of_ours).deposits
    return [(one.block_number, one.named_agent, one.amount) for one in found]


# --- What is a deposit ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("asset", "units", "amount"), [(USDC, 1_500_000, "1.5"), (PYUSD, 1, "0.000001"), (SOL, 2 * 10**9, "2")]
)
def test_what_raises_what_an_account_of_the_escrow_holds_is_a_deposit(node, truth, asset, units, amount):
    tx = truth.land(1, 500, (asset, 7, 7 + units), others=3)

    (found,) = tell([node], truth).search_escrow(1, FINAL, none_of_ours).deposits

    assert (found.tx, found.log_index, found.block_number) == (tx, 3, 500)
    assert (found.asset, found.token, found.amount) == (asset, str(MINTS[asset]), Decimal(amount))
    assert found.named_agent == "agent"
    assert found.depositor == truth.transactions[tx]["transaction"]["message"]["accountKeys"][0]


def test_one_transaction_may_deposit_several_assets(node, truth):
    truth.land(1, 500, (USDC, 0, MILLION), (SOL, 0, 10**9), (PYUSD, MILLION, 0))

    found = tell([node], truth).search_escrow(1, FINAL, none_of_ours).deposits

    assert [(one.asset, one.log_index, str(one.amount)) for one in found] == [
        (USDC, 1, "1.000000"),
        (SOL, 2, "1.000000000"),
    ]


@pytest.mark.parametrize(
    ("before", "after"), [(MILLION, MILLION), (MILLION, 0), (0, 0)], ids=["the same", "less", "nothing"]
)
@pytest.mark.parametrize("asset", [USDC, SOL])
def test_what_raises_nothing_is_none(node, truth, asset, before, after):
    truth.land(1, 500, (asset, before, after))

    assert find(tell([node], truth)) == []


def test_what_failed_is_none(node, truth):
    truth.land(1, 500, (USDC, 0, MILLION), error={"InstructionError": [0, {"Custom": 1}]})

    assert find(tell([node], truth)) == []
    assert "getTransaction" not in node.asked


def test_what_is_ours_is_not_even_looked_at(node, truth):
    ours = truth.land(1, 500, (USDC, 0, MILLION))
    truth.land(2, 501, (USDC, MILLION, 2 * MILLION), memos=[(MEMO_PROGRAM, b"theirs")])

    found = tell([node], truth).search_escrow(1, FINAL, lambda txs: {ours} & set(txs)).deposits

    assert [one.named_agent for one in found] == ["theirs"]
    assert node.asked.count("getTransaction") == 1


def test_the_rent_of_a_new_account_is_no_deposit(node, truth):
    tx = truth.land(1, 500, (SOL, 0, 0), (USDC, 0, 0))
    meta = truth.transactions[tx]["meta"]
    meta["preBalances"] = [10**9, 0, 0, 1, 1]
    meta["preTokenBalances"] = []
    chain = tell([node], truth)
    assert find(chain) == []

    meta["postBalances"][1] += 5
    meta["postTokenBalances"][1]["uiTokenAmount"]["amount"] = "7"
    assert [one[2] for one in find(chain)] == [Decimal("0.000000005"), Decimal("0.000007")]


def test_what_of_wrapped_sol_does_not_count_is_what_the_account_says(node, truth):
    # As it was when the account was made: what an account must hold has changed since.
    truth.accounts[HOLDERS[SOL]] = holder_account(SOL, data={113: (RENT * 2).to_bytes(8, "little")})
    tx = truth.land(1, 500, (SOL, 0, RENT + 5))
    chain = tell([node], truth)

    assert [one[2] for one in find(chain)] == [Decimal("0.000000005")]
    assert truth.transactions[tx]["meta"]["postBalances"][1] == RENT * 2 + 5


@pytest.mark.parametrize(
    ("memos", "name"),
    [
        ([(MEMO_PROGRAM, b"agent-7")], "agent-7"),
        ([(OLD_MEMO_PROGRAM, b"agent-7")], "agent-7"),
        ([], ""),
        ([(MEMO_PROGRAM, b"agent-7"), (MEMO_PROGRAM, b"agent-8")], ""),
        ([(MEMO_PROGRAM, b"agent-7"), (OLD_MEMO_PROGRAM, b"agent-7")], ""),
        ([(MEMO_PROGRAM, b"")], ""),
        ([(MEMO_PROGRAM, b" a\0b\xff")], " a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"),
        ([(MEMO_PROGRAM, "Zoë".encode())], "Zoë"),
    ],
    ids=["one", "the old program", "none", "two", "one of each", "empty", "no text", "beyond ASCII"],
)
def test_the_one_memo_names_the_agent(node, truth, memos, name):
    truth.land(1, 500, (USDC, 0, MILLION), memos=memos)

    assert find(tell([node], truth)) == [(500, name, 1)]


def test_an_account_that_a_transaction_looks_up_is_seen_behind_its_own(node, truth):
    tx = truth.land(1, 500, (USDC, 0, MILLION))
    message, meta = truth.transactions[tx]["transaction"]["message"], truth.transactions[tx]["meta"]
    message["accountKeys"] = [message["accountKeys"][0], MEMO_PROGRAM]
    message["instructions"][0]["programIdIndex"] = 1
    meta["loadedAddresses"] = {"writable": [address(), HOLDERS[USDC]], "readonly": [CLOCK]}
    meta["preBalances"] = meta["postBalances"] = [1] * 5
    for balance in (*meta["preTokenBalances"], *meta["postTokenBalances"]):
        balance["accountIndex"] = 3

    (found,) = tell([node], truth).search_escrow(1, FINAL, none_of_ours).deposits

    assert (found.log_index, found.amount) == (3, Decimal(1))


def test_nothing_is_looked_for_under_a_mint_that_it_cannot_be_counted_by(node, truth):
    truth.accounts[str(MINTS[USDC])] = account()
    truth.accounts[str(MINTS[PYUSD])] = None
    truth.land(1, 500, (USDC, 0, MILLION), (PYUSD, 0, MILLION))
    chain = tell([node], truth)

    assert find(chain) == []
    assert chain.find_holdings(FINAL) == {SOL: 0, USDC: 0, PYUSD: 0}


@pytest.mark.parametrize("is_deployed", [True, False])
def test_an_asset_whose_mint_was_there_is_not_left_out_because_it_is_said_to_be_gone(node, truth, is_deployed):
    if not is_deployed:
        truth.accounts[HOLDERS[SOL]] = None
    truth.accounts[str(MINTS[PYUSD])] = None
    truth.land(1, 500, (USDC, 0, MILLION))
    chain = tell([node], truth)
    assert find(chain) == [(500, "agent", 1)]

    there = truth.accounts[str(MINTS[USDC])]
    for gone in (None, account()):
        truth.accounts[str(MINTS[USDC])] = gone
        with pytest.raises(ChainUnavailable, match="USDC"):
            find(chain)
        with pytest.raises(ChainUnavailable, match="USDC"):
            chain.find_holdings(FINAL)
    truth.accounts[str(MINTS[USDC])] = there
    assert find(chain) == [(500, "agent", 1)]


def test_a_mint_that_one_node_alone_does_not_know_is_not_left_out(nodes, truth, liar):
    other = replace(truth, accounts=dict(truth.accounts))
    other.accounts[str(MINTS[USDC])] = None
    chain = tell(nodes, truth, liar, **other.answers())

    with pytest.raises(ChainUnavailable):
        find(chain)
    with pytest.raises(ChainUnavailable):
        chain.find_holdings(FINAL)


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


# --- Nodes that contradict each other, are behind or have forgotten ---------------------------------------------------
def test_deposits_that_nodes_contradict_each_other_about_are_not_believed(nodes, truth, liar):
    truth.land(1, 500, (USDC, 0, MILLION))
    truth.land(2, 501, (USDC, MILLION, 3 * MILLION))
    lies = [Truth() for _ in range(4)]
    lies[0].land(1, 500, (USDC, 0, MILLION))
    lies[1].land(1, 500, (USDC, 0, MILLION))
    lies[1].land(2, 501, (USDC, MILLION, 4 * MILLION))
    lies[2].land(1, 500, (USDC, 0, MILLION), memos=[(MEMO_PROGRAM, b"another")])
    lies[2].land(2, 501, (USDC, MILLION, 3 * MILLION))

    for lie in lies:
        with pytest.raises(ChainUnavailable):
            find(tell(nodes, truth, liar, **lie.answers()))
    assert find(tell(nodes, truth)) == [(500, "agent", 1), (501, "agent", 2)]


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
        find(tell(nodes, truth, liar, **other.answers()))


# --- Holdings ---------------------------------------------------------------------------------------------------------
def test_what_is_held_is_told_as_of_a_slot(nodes, truth):
    truth.land(1, 100, (USDC, 0, 5 * MILLION), (SOL, 0, 10**9))
    truth.land(2, 200, (USDC, 5 * MILLION, 3 * MILLION))
    truth.land(3, 200, (USDC, 3 * MILLION, 4 * MILLION))
    truth.land(4, 300, (USDC, 4 * MILLION, 9 * MILLION), error="AccountInUse")
    truth.land(5, 400, (SOL, 10**9, 3 * 10**9))
    truth.accounts[HOLDERS[PYUSD]] = holder_account(PYUSD, 7 * MILLION)
    chain = tell(nodes, truth)

    def held(slot: int) -> Any:
        found = chain.find_holdings(slot)
        return found[USDC], found[SOL], found[PYUSD]

    assert held(99) == (0, 0, 7)
    assert held(100) == (5, 1, 7)
    assert held(199) == (5, 1, 7)
    assert held(200) == (4, 1, 7)
    assert held(399) == (9, 1, 7)
    assert held(FINAL) == (9, 3, 7)


def test_plain_lamports_are_held_too_and_the_rent_is_not(node, truth):
    truth.accounts[HOLDERS[SOL]] = holder_account(SOL, 5, lamports=RENT + 8)
    chain = tell([node], truth)
    assert chain.find_holdings(FINAL)[SOL] == Decimal("0.000000008")

    truth.accounts[HOLDERS[SOL]] = account(lamports=RENT - 1)
    assert tell([node], truth).find_holdings(FINAL)[SOL] == 0


def test_an_account_that_is_not_there_yet_holds_nothing(node, truth):
    for holder in HOLDERS.values():
        truth.accounts[holder] = None

    assert tell([node], truth).find_holdings(FINAL) == {SOL: 0, USDC: 0, PYUSD: 0}


def test_holdings_that_nodes_contradict_each_other_about_are_unknown(nodes, truth, liar):
    truth.land(1, 100, (USDC, 0, 5 * MILLION))
    other = Truth()
    other.land(1, 100, (USDC, 0, 6 * MILLION))
    chain = tell(nodes, truth, liar, **other.answers())
    with pytest.raises(ChainUnavailable):
        chain.find_holdings(FINAL)

    for lies in (replace(truth, final=FINAL - 1).answers(), {"getFirstAvailableBlock": FINAL + 1}):
        assert tell(nodes, truth, liar, **lies).find_holdings(FINAL)[USDC] == 5
        with pytest.raises(ChainUnavailable):
            adapter(nodes[liar]).find_holdings(FINAL)


def test_what_was_never_touched_is_read_before_it_is_known_to_be_so(node, truth):
    tell([node], truth).find_holdings(FINAL)

    methods = [method for method in node.asked if method in ("getMultipleAccounts", "getSignaturesForAddress")]
    assert methods[-len(HOLDERS) :] == ["getSignaturesForAddress"] * len(HOLDERS)
    assert methods[-len(HOLDERS) - 1] == "getMultipleAccounts"


def _calls(node: Node) -> Iterator[dict[str, Any]]:
    for request in node.requests:
        yield from request if isinstance(request, list) else [request]

"""What came into the escrow's accounts on Solana, and what they hold: read from the history of every node."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from chains.port import ChainUnavailable
from foundation.kernel.assets import Asset
from tests.support.deposits import none_of_ours
from tests.support.fake_nodes import Node, open_nodes
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
    tell,
)
from tests.support.solana_deposits import find

SOL, USDC, PYUSD = Asset.SOL, Asset.USDC, Asset.PYUSD
MILLION = 10**6


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    with open_nodes(3) as made:
        yield made


@pytest.fixture(params=[0, 1], ids=["the first lies", "the second lies"])
def liar(request) -> int:
    return int(request.param)


# --- What is a deposit ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("asset", "units", "amount"), [(USDC, 1_500_000, "1.5"), (PYUSD, 1, "0.000001"), (SOL, 2 * 10**9, "2")]
)
def test_what_raises_what_an_account_of_the_escrow_holds_is_a_deposit(node, truth, asset, units, amount):
    tx = truth.land(1, 500, (asset, 7, 7 + units), others=3)

    (found,) = tell([node], truth).escrow.search(1, FINAL, none_of_ours).deposits

    assert (found.tx, found.log_index, found.block_number) == (tx, 3, 500)
    assert (found.asset, found.token, found.amount) == (asset, str(MINTS[asset]), Decimal(amount))
    assert found.named_agent == "agent"
    assert found.depositor == truth.transactions[tx]["transaction"]["message"]["accountKeys"][0]


def test_one_transaction_may_deposit_several_assets(node, truth):
    truth.land(1, 500, (USDC, 0, MILLION), (SOL, 0, 10**9), (PYUSD, MILLION, 0))

    found = tell([node], truth).escrow.search(1, FINAL, none_of_ours).deposits

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

    found = tell([node], truth).escrow.search(1, FINAL, lambda txs: {ours} & set(txs)).deposits

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

    (found,) = tell([node], truth).escrow.search(1, FINAL, none_of_ours).deposits

    assert (found.log_index, found.amount) == (3, Decimal(1))


def test_nothing_is_looked_for_under_a_mint_that_it_cannot_be_counted_by(node, truth):
    truth.accounts[str(MINTS[USDC])] = account()
    truth.accounts[str(MINTS[PYUSD])] = None
    truth.land(1, 500, (USDC, 0, MILLION), (PYUSD, 0, MILLION))
    chain = tell([node], truth)

    assert find(chain) == []
    assert chain.escrow.find_holdings(FINAL) == {SOL: 0, USDC: 0, PYUSD: 0}


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
            chain.escrow.find_holdings(FINAL)
    truth.accounts[str(MINTS[USDC])] = there
    assert find(chain) == [(500, "agent", 1)]


def test_a_mint_that_one_node_alone_does_not_know_is_not_left_out(nodes, truth, liar):
    other = replace(truth, accounts=dict(truth.accounts))
    other.accounts[str(MINTS[USDC])] = None
    truth.land(1, 500, (USDC, 0, MILLION))
    other.entries, other.transactions = truth.entries, truth.transactions

    two, three = (tell(some, truth, liar, **other.answers()) for some in (nodes[:2], nodes))
    with pytest.raises(ChainUnavailable):
        find(two)
    with pytest.raises(ChainUnavailable):
        two.escrow.find_holdings(FINAL)
    assert find(three) == [(500, "agent", 1)]
    assert three.escrow.find_holdings(FINAL)[USDC] == 1


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
        found = chain.escrow.find_holdings(slot)
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
    assert chain.escrow.find_holdings(FINAL)[SOL] == Decimal("0.000000008")

    truth.accounts[HOLDERS[SOL]] = account(lamports=RENT - 1)
    assert tell([node], truth).escrow.find_holdings(FINAL)[SOL] == 0


def test_an_account_that_is_not_there_yet_holds_nothing(node, truth):
    for holder in HOLDERS.values():
        truth.accounts[holder] = None

    assert tell([node], truth).escrow.find_holdings(FINAL) == {SOL: 0, USDC: 0, PYUSD: 0}


def test_holdings_are_what_two_nodes_say_and_unknown_if_two_contradict_each_other(nodes, truth, liar):
    truth.land(1, 100, (USDC, 0, 5 * MILLION))
    other = Truth()
    other.land(1, 100, (USDC, 0, 6 * MILLION))
    assert tell(nodes, truth, liar, **other.answers()).escrow.find_holdings(FINAL)[USDC] == 5
    with pytest.raises(ChainUnavailable):
        tell(nodes[:2], truth, liar, **other.answers()).escrow.find_holdings(FINAL)

    for lies in (replace(truth, final=FINAL - 1).answers(), {"getFirstAvailableBlock": FINAL + 1}):
        assert tell(nodes, truth, liar, **lies).escrow.find_holdings(FINAL)[USDC] == 5
        with pytest.raises(ChainUnavailable):
            adapter(nodes[liar]).escrow.find_holdings(FINAL)


def test_what_was_never_touched_is_read_before_it_is_known_to_be_so(node, truth):
    tell([node], truth).escrow.find_holdings(FINAL)

    methods = [method for method in node.asked if method in ("getMultipleAccounts", "getSignaturesForAddress")]
    assert methods[-len(HOLDERS) :] == ["getSignaturesForAddress"] * len(HOLDERS)
    assert methods[-len(HOLDERS) - 1] == "getMultipleAccounts"

"""What the Solana adapter asks of nodes, and how it takes their answers."""

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from solders.keypair import Keypair

from chains.port import ChainUnavailable
from chains.solana.costs import find_rent
from chains.solana.derivation import TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from chains.solana.instructions import UNIT_LIMIT
from foundation.kernel.assets import Asset
from tests.support.fake_solana_nodes import (
    FINAL,
    HEIGHT,
    HOLDERS,
    LEAST,
    MINTS,
    NEWEST,
    OWNER,
    POLICY,
    RELAYER,
    RENT,
    SIGNERS,
    TOKEN_2022_ESCROW,
    TOKEN_ESCROW,
    Truth,
    account,
    address,
    holder_account,
    tell,
)
from tests.support.solana_vm import PYUSD, layout_extensions, mint_data, token_data

STRANGER = Keypair().pubkey()


# --- What is observed -------------------------------------------------------------------------------------------------
def test_what_is_observed_is_all_that_signing_needs(node, truth):
    chain = tell([node], truth)

    seen = chain.observer.observe()

    assert json.loads(json.dumps(seen)) == {
        "configuration": chain.preparer.configuration,
        "slot": FINAL,
        "blockhash": truth.blockhash,
        "lastValidBlockHeight": HEIGHT + 32 + 150,
        "unitPriceMicroLamports": 0,
        "rentExempt": {"account": LEAST, "token": RENT},
        "tokens": {
            "SOL": {"program": str(TOKEN_PROGRAM), "objection": None},
            "USDC": {"program": str(TOKEN_PROGRAM), "objection": None},
            "PYUSD": {"program": str(TOKEN_2022_PROGRAM), "objection": None},
        },
    }


@pytest.mark.parametrize(
    ("prices", "price"),
    [
        ([], 0),
        ([7], 7),
        ([*range(101)], 50),
        ([*range(101)][::-1], 50),
        ([0] * 75 + [10**9] * 75, 0),
        ([0] * 75 + [5] * 76, 5),
        ([10**9] * 3, 5_000_000),
    ],
    ids=["none", "one", "rising", "falling", "half of it high", "most of it high", "above the cap"],
)
def test_the_price_of_a_unit_is_what_half_of_the_slots_took_up_to_the_cap(node, truth, prices, price):
    truth.prices = prices

    assert tell([node], truth).observer.observe()["unitPriceMicroLamports"] == price


def test_a_mint_that_is_not_to_be_paid_with_is_told_and_the_others_go_on(node, truth):
    frozen_by_default = mint_data(extensions=PYUSD | {6: b"\2"})
    truth.accounts[str(MINTS[Asset.PYUSD])] = account(frozen_by_default, str(TOKEN_2022_PROGRAM))
    truth.accounts[str(MINTS[Asset.USDC])] = None

    tokens = tell([node], truth).observer.observe()["tokens"]

    assert tokens["PYUSD"]["objection"] == "The mint of PYUSD freezes every new account."
    assert tokens["USDC"] == {"program": "", "objection": f"There is no USDC at {MINTS[Asset.USDC]}."}
    assert tokens["SOL"]["objection"] is None


def test_a_token_account_in_the_place_of_a_mint_is_told(node, truth):
    truth.accounts[str(MINTS[Asset.USDC])] = holder_account(Asset.USDC)

    assert "is no mint of USDC" in tell([node], truth).observer.observe()["tokens"]["USDC"]["objection"]


BAD_ANSWERS: dict[str, list[Any]] = {
    "getLatestBlockhash": [
        None,
        {},
        {"context": {"slot": 1}, "value": {"blockhash": "0", "lastValidBlockHeight": 1082}},
    ],
    "getRecentPrioritizationFees": [None, [{}], [{"prioritizationFee": -1}], [{"prioritizationFee": 1.5}]],
    "getMinimumBalanceForRentExemption": [None, "890880", True, -1, 2**64],
    "getMultipleAccounts": [
        None,
        {"context": {"slot": 1}, "value": []},
        {"context": {"slot": 1}, "value": [account()] * 4},
        {"context": {"slot": 1}, "value": [account(data=b"") | {"data": ["!", "base64"]}] * 3},
        {"context": {"slot": 1}, "value": [account() | {"owner": "nobody"}] * 3},
        {"context": {"slot": 1}, "value": [account() | {"executable": None}] * 3},
    ],
    "getEpochInfo": [
        None,
        {"absoluteSlot": 1000},
        {"absoluteSlot": 1000, "blockHeight": "900"},
        {"absoluteSlot": 2**63, "blockHeight": 900},
    ],
    "getAccountInfo": [None, {"context": {"slot": 1}, "value": None}, {"context": {"slot": 1}, "value": account(b"1")}],
}


@pytest.mark.parametrize(
    ("method", "answer"), [(method, answer) for method, answers in BAD_ANSWERS.items() for answer in answers], ids=str
)
def test_what_cannot_be_read_is_asked_of_the_next_node(nodes, truth, method, answer):
    if method not in ("getEpochInfo", "getAccountInfo", "getRecentPrioritizationFees"):
        assert tell(nodes, truth, 0, **{method: answer}).observer.observe()["slot"] == FINAL

    with pytest.raises(ChainUnavailable):
        tell(nodes[:1], truth, 0, **{method: answer}).observer.observe()


def test_relayers_afford_as_many_payments_as_they_can_pay_at_the_highest_price_and_live_on(node, truth):
    rich, poor, empty = address(), address(), address()
    # A payee's new account may be a longer one; and what pays SOL lends the rent of a plain one.
    cost, kept = 10_000 + UNIT_LIMIT * 5 + find_rent(RENT), LEAST + RENT
    truth.accounts |= {rich: account(lamports=kept + 7 * cost), poor: account(lamports=kept + 7 * cost - 1)}

    seen = tell([node], truth).observer.observe_relayers([rich, poor, empty])

    assert [seen[one].affords for one in (rich, poor, empty)] == [7, 6, 0]
    assert (seen[rich].balance, seen[empty].balance) == (Decimal(kept + 7 * cost).scaleb(-9), Decimal(0))
    assert seen[rich].nonces is None


def test_there_is_one_relayer_and_what_no_block_holds_is_offered_again_soon(node, truth):
    chain = tell([node], truth)

    assert (chain.nonces, chain.preparer.most_relayers, chain.broadcaster.resend_after) == (
        None,
        1,
        timedelta(seconds=2),
    )
    assert chain.preparer.relayer_address(0) == str(RELAYER)


# --- Payees -----------------------------------------------------------------------------------------------------------
EXTENDED = layout_extensions(b"\2", {7: b""})
OBJECTIONS = {
    "a wallet": (account(), None),
    "nobody yet": (None, None),
    "a program": (
        account(b"1" * 36, "BPFLoaderUpgradeab1e11111111111111111111111", executable=True),
        "It is a program,",
    ),
    "a vault": (account(b"1" * 80, str(STRANGER)), f"It belongs to the program {STRANGER},"),
    "a mint": (account(mint_data(), str(TOKEN_PROGRAM)), "It is a mint,"),
    "an extended mint": (account(mint_data(extensions=PYUSD), str(TOKEN_2022_PROGRAM)), "It is a mint,"),
    "a token account": (holder_account(Asset.USDC), "It is a token account,"),
    "an extended token account": (
        account(token_data(MINTS[Asset.USDC], STRANGER, 0, None, None) + EXTENDED, str(TOKEN_2022_PROGRAM)),
        "It is a token account,",
    ),
    "a multisig": (account(SIGNERS.multisig_data, str(TOKEN_PROGRAM)), "It is a multisig of a token program,"),
    "some token thing": (account(b"1" * 10, str(TOKEN_PROGRAM)), "It is an account of a token program,"),
}


@pytest.mark.parametrize(("there", "objection"), OBJECTIONS.values(), ids=OBJECTIONS.keys())
def test_only_wallets_are_paid(nodes, truth, there, objection):
    payee = address()
    truth.accounts[payee] = there

    said = tell(nodes, truth).payee_accounts.find_objection(payee)

    assert said is None if objection is None else (said or "").startswith(objection)


def test_our_own_accounts_are_not_paid_even_before_they_are_there(node):
    truth = Truth()
    truth.accounts.clear()
    chain = tell([node], truth)

    for own in (str(TOKEN_ESCROW), str(TOKEN_2022_ESCROW), *HOLDERS.values()):
        assert chain.payee_accounts.find_objection(own) == "It is an account of the escrow."
    for own in map(str, (RELAYER, POLICY, OWNER)):
        said = chain.payee_accounts.find_objection(own)
        assert said == "It is the address of our own relayer, policy signer or owner."
    assert "getMultipleAccounts" not in node.asked


def test_a_payee_is_not_approved_on_one_nodes_word(nodes, truth):
    payee = address()
    truth.accounts[payee] = OBJECTIONS["a vault"][0]
    chain = tell(nodes, truth, 0, **Truth().answers())
    with pytest.raises(ChainUnavailable):
        chain.payee_accounts.find_objection(payee)

    nodes[0].respond = lambda _: (503, b"")
    with pytest.raises(ChainUnavailable):
        chain.payee_accounts.find_objection(payee)


# --- Lost blocks ------------------------------------------------------------------------------------------------------
def test_a_confirmed_slot_without_its_block_is_lost_unless_the_node_is_not_so_far(node, truth):
    there = {FINAL + 1, FINAL + 3, NEWEST}
    chain = tell([node], truth, 0, getBlocks=lambda first, last, _: sorted(there & set(range(first, last + 1))))
    known = [(slot, str(slot)) for slot in (FINAL + 1, FINAL + 2, FINAL + 3, NEWEST, NEWEST + 1)]

    assert chain.follower.find_lost(known) == [str(FINAL + 2)]
    asked = [call["method"] for call in node.requests[-1]]
    assert asked == ["getSlot", "getBlocks"]

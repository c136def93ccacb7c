"""The escrow and the chain of Solana nodes are compared with the configuration."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.test import override_settings
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from chains.port import ChainUnavailable
from chains.solana.adapter import SolanaChain
from chains.solana.derivation import TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from chains.solana.inspection import inspect
from foundation.kernel.assets import Asset
from tests.support.commands import run
from tests.support.embedded_nodes import AWAY
from tests.support.fake_nodes import Node, open_nodes
from tests.support.fake_solana_nodes import (
    FINAL,
    GENESIS,
    HOLDERS,
    MINTS,
    OWNER,
    POLICY,
    RELAYER,
    SIGNERS,
    TOKEN_2022_ESCROW,
    TOKEN_ESCROW,
    Truth,
    account,
    adapter,
    holder_account,
    served,
    tell,
)
from tests.support.solana_vm import PYUSD, SEED, SIGNER_KEY, mint_data

LOCALNET = served().chain.caip2
STRANGER = Keypair().pubkey()


# --- What is configured -----------------------------------------------------------------------------------------------
def wrong_holder(asset: Asset = Asset.USDC, **changes: Any) -> dict[str, Any]:
    return {HOLDERS[asset]: holder_account(asset, **changes)}


TWO_OF_TWO = (b"\2\2\1" + bytes(RELAYER) + bytes(POLICY)).ljust(355, b"\0")
TWO_OF_FOUR = (b"\2\4\1" + b"".join(map(bytes, (*SIGNERS.keys, STRANGER)))).ljust(355, b"\0")
MISMATCHES: dict[str, tuple[dict[str, Any], str]] = {
    "no multisig": ({str(TOKEN_ESCROW): None}, f"There is no escrow at {TOKEN_ESCROW}: manage.py deploy_escrow"),
    "only lamports": ({str(TOKEN_ESCROW): account()}, f"There is no escrow at {TOKEN_ESCROW}: manage.py deploy_escrow"),
    "no second multisig": ({str(TOKEN_2022_ESCROW): None}, f"There is no escrow at {TOKEN_2022_ESCROW}"),
    "one of three": (
        {str(TOKEN_ESCROW): account(b"\1" + SIGNERS.multisig_data[1:], str(TOKEN_PROGRAM))},
        f"The account {TOKEN_ESCROW} is not the escrow",
    ),
    "three of three": (
        {str(TOKEN_ESCROW): account(b"\3" + SIGNERS.multisig_data[1:], str(TOKEN_PROGRAM))},
        f"The account {TOKEN_ESCROW} is not the escrow",
    ),
    "two of two": (
        {str(TOKEN_ESCROW): account(TWO_OF_TWO, str(TOKEN_PROGRAM))},
        f"The account {TOKEN_ESCROW} is not the escrow",
    ),
    "a fourth signer": (
        {str(TOKEN_ESCROW): account(TWO_OF_FOUR, str(TOKEN_PROGRAM))},
        f"The account {TOKEN_ESCROW} is not the escrow",
    ),
    "another order": (
        {str(TOKEN_ESCROW): account(replace(SIGNERS, relayer=POLICY, policy_signer=RELAYER).multisig_data)},
        f"The account {TOKEN_ESCROW} is not the escrow",
    ),
    "another owner of the escrow": (
        {str(TOKEN_ESCROW): account(replace(SIGNERS, owner=STRANGER).multisig_data, str(TOKEN_PROGRAM))},
        f"The account {TOKEN_ESCROW} is not the escrow of our relayer, policy signer and owner.",
    ),
    "another signer": (
        {str(TOKEN_ESCROW): account(replace(SIGNERS, policy_signer=STRANGER).multisig_data, str(TOKEN_PROGRAM))},
        f"The account {TOKEN_ESCROW} is not the escrow",
    ),
    "another program's": (
        {str(TOKEN_2022_ESCROW): account(SIGNERS.multisig_data, str(TOKEN_PROGRAM))},
        f"The account {TOKEN_2022_ESCROW} is not the escrow",
    ),
    "another owner": (
        wrong_holder(data={32: bytes(STRANGER)}),
        f"The escrow's account for USDC belongs to {STRANGER}.",
    ),
    "another mint": (
        wrong_holder(data={0: bytes(STRANGER)}),
        f"The escrow's account for USDC is of the mint {STRANGER}.",
    ),
    "not initialised": (wrong_holder(data={108: b"\0"}), "The escrow's account for USDC is not initialised."),
    "a delegate": (wrong_holder(data={72: b"\1"}), "The escrow's account for USDC may be spent from by a delegate."),
    "a closer": (wrong_holder(data={129: b"\1"}), "The escrow's account for USDC may be closed by another."),
    "not wrapped": (
        wrong_holder(Asset.SOL, data={109: b"\0"}),
        "The escrow's account for SOL does not hold wrapped SOL.",
    ),
}

UNUSABLE = {
    "no token account": ({HOLDERS[Asset.PYUSD]: None}, "The escrow has no account for PYUSD: manage.py deploy_escrow"),
    "a wallet there": ({HOLDERS[Asset.PYUSD]: account()}, "The escrow has no account for PYUSD"),
    "frozen": (wrong_holder(Asset.PYUSD, data={108: b"\2"}), "The escrow's account for PYUSD is frozen."),
}


@pytest.mark.parametrize(("there", "sentence"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_an_asset_that_the_escrow_cannot_pay_is_refused_and_the_others_go_on(node, truth, there, sentence):
    truth.accounts |= there

    observed = tell([node], truth).observer.observe()["tokens"]

    assert observed["PYUSD"]["objection"].startswith(sentence)
    assert {asset for asset, token in observed.items() if token["objection"]} == {"PYUSD"}
    inspection = tell([node], truth).inspector.inspect([])
    assert inspection.find_mismatches() == []
    assert [one["objection"] for one in inspection.as_json()["tokens"] if one["asset"] == "PYUSD"] == [
        observed["PYUSD"]["objection"]
    ]


def test_a_chain_that_is_what_is_configured_has_no_mismatch(nodes, truth):
    assert tell(nodes, truth).inspector.find_mismatches([]) == []


@pytest.mark.parametrize(("there", "sentence"), MISMATCHES.values(), ids=MISMATCHES.keys())
def test_an_escrow_that_is_not_what_it_should_be_is_a_mismatch(node, truth, there, sentence):
    truth.accounts |= there

    (found,) = tell([node], truth).inspector.find_mismatches([])

    assert found.startswith(sentence)


def test_another_escrow_than_our_keys_have_is_a_mismatch(node, truth):
    node.answers = truth.answers()

    (found,) = adapter(node, escrow=str(STRANGER)).inspector.find_mismatches([])

    assert found == f"The escrow of our relayer, policy signer and owner is {TOKEN_ESCROW}, not {STRANGER}."


def test_an_escrow_of_another_owner_than_the_configured_one_is_a_mismatch(node, truth):
    node.answers = truth.answers()
    other = replace(SIGNERS, owner=STRANGER)

    found = SolanaChain.of(served(node), SEED, other).inspector.find_mismatches([])

    assert found[0] == (
        f"The escrow of our relayer, policy signer and owner is {other.escrow(TOKEN_PROGRAM)}, not {TOKEN_ESCROW}."
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"policy_signer": RELAYER}, "The relayer and the policy signer have the same key: one alone would move"),
        ({"owner": RELAYER}, "The owner has the key of the relayer or the policy signer: one alone would move"),
        ({"owner": POLICY}, "The owner has the key of the relayer or the policy signer: one alone would move"),
        ({"owner": Pubkey.from_string(HOLDERS[Asset.USDC])}, "No key can sign for the owner"),
    ],
)
def test_signers_that_make_no_escrow_are_a_mismatch_even_where_one_of_them_stands(node, changes, sentence):
    truth, signers = Truth(), replace(SIGNERS, **changes)
    for program in (TOKEN_PROGRAM, TOKEN_2022_PROGRAM):
        truth.accounts[str(signers.escrow(program))] = account(signers.multisig_data, str(program))
    node.answers = truth.answers()
    chain = SolanaChain.of(served(node, escrow=str(signers.escrow(TOKEN_PROGRAM))), SEED, signers)

    (found,) = chain.inspector.find_mismatches([])

    assert found.startswith(sentence)


def test_a_node_of_another_chain_among_several_is_a_mismatch(nodes, truth):
    other = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"
    chain = tell(nodes, truth, 0, getGenesisHash=other)

    assert chain.inspector.find_mismatches([]) == [f"Node 1 of 2 is of the chain {other}, not of {GENESIS[:32]}…."]


@pytest.mark.parametrize("newest", [0, 10**6])
def test_how_far_the_chain_is_is_not_what_one_node_says_that_tells_the_truth_of_all_else(truth, liar, newest):
    with open_nodes(3) as nodes:
        chain = tell(nodes, truth, liar, getSlot=newest)
        begun = replace(chain.inspector.expect(), first_block=truth.newest)

        assert inspect(chain.inspector.singles, begun).find_mismatches() == []
        (found,) = inspect(chain.inspector.singles, replace(begun, first_block=truth.newest + 1)).find_mismatches()

    assert found == f"The escrow's first block is said to be {truth.newest + 1}; the newest is {truth.newest}."


def test_a_mint_that_is_not_to_be_paid_with_is_no_mismatch_of_the_chain(node, truth):
    truth.accounts[str(MINTS[Asset.PYUSD])] = account(mint_data(9, extensions=PYUSD), str(TOKEN_2022_PROGRAM))
    truth.accounts[HOLDERS[Asset.PYUSD]] = None

    assert tell([node], truth).inspector.find_mismatches([]) == []


@pytest.mark.parametrize(
    "lies",
    [{"getMultipleAccounts": {"code": 1, "message": "no"}}, {"getMultipleAccounts": None}, {"getGenesisHash": None}],
    ids=["an error", "nothing", "of no chain"],
)
def test_nodes_that_cannot_tell_say_nothing_about_the_escrow(node, truth, lies):
    with pytest.raises(ChainUnavailable):
        tell([node], truth, 0, **lies).inspector.find_mismatches([])


# --- The command ------------------------------------------------------------------------------------------------------
@pytest.fixture
def on_solana(node, truth) -> Iterator[Node]:
    node.answers = truth.answers()
    with override_settings(
        CHAINS={LOCALNET: served(node)}, RELAYER_SEED=SEED, POLICY_SIGNER_SOLANA_KEY=SIGNER_KEY, RELAYERS_PER_CHAIN=1
    ):
        yield node


def test_the_command_shows_where_each_asset_is_deposited_and_which_is_refused(db, on_solana, truth):
    truth.accounts[str(MINTS[Asset.PYUSD])] = account(mint_data(extensions={5: b""}), str(TOKEN_2022_PROGRAM))

    lines, error = run("chains")

    assert error is None
    (chain,) = json.loads(lines[-1])["chains"]
    assert (chain["alias"], chain["nodesAnswering"], chain["finalBlock"]) == ("solana-localnet", 1, FINAL)
    assert chain["escrows"] == [str(TOKEN_ESCROW), str(TOKEN_2022_ESCROW)]
    assert [chain[one] for one in ("relayer", "policySigner", "owner")] == list(map(str, SIGNERS.keys))
    tokens = {one["asset"]: one for one in chain["tokens"]}
    assert {asset: one["depositAddress"] for asset, one in tokens.items()} == HOLDERS
    assert [tokens[asset]["decimals"] for asset in ("SOL", "USDC", "PYUSD")] == [9, 6, 6]
    assert tokens["PYUSD"]["objection"].startswith("The mint of PYUSD has the extension 5")
    shown = "\n".join(lines[:-1])
    for part in (
        f"owner     {OWNER}, takes money out",
        "1 of 1 answer",
        f"block {FINAL}",
        f"deposits to {HOLDERS[Asset.SOL]}",
        "not paid with",
        "matches",
    ):
        assert part in shown, part


def test_the_command_fails_for_a_chain_that_does_not_match(db, on_solana, truth):
    truth.accounts[str(TOKEN_ESCROW)] = None

    lines, error = run("chains")

    assert "Nothing is paid on solana-localnet." in error
    (chain,) = json.loads(lines[-1])["chains"]
    assert chain["mismatches"][0].startswith("There is no escrow at")


def test_the_command_fails_when_no_node_answers(db):
    away = replace(served(), rpc_urls=(f"{AWAY}/secret-value",))
    with override_settings(CHAINS={LOCALNET: away}, RELAYER_SEED=SEED, POLICY_SIGNER_SOLANA_KEY=SIGNER_KEY):
        lines, error = run("chains")

    (chain,) = json.loads(lines[-1])["chains"]
    assert (chain["nodes"], chain["nodesAnswering"], chain["escrow"]) == (1, 0, str(TOKEN_ESCROW))
    assert "Nothing is paid" in error
    assert "secret-value" not in "\n".join(lines) + error

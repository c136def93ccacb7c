"""What the Solana adapter asks of nodes, and how it takes their answers."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import override_settings
from solders.account import Account
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.transaction_metadata import FailedTransactionMetadata

from allowance.kernel.assets import Asset
from chains.port import ChainUnavailable, TransactionQuery
from chains.solana.adapter import SolanaChain
from chains.solana.costs import find_rent
from chains.solana.derivation import TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from chains.solana.failures import describe
from chains.solana.instructions import UNIT_LIMIT
from tests.support.commands import run
from tests.support.embedded_nodes import AWAY
from tests.support.fake_nodes import Node
from tests.support.fake_solana_nodes import (
    FINAL,
    GENESIS,
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
    adapter,
    address,
    holder_account,
    served,
    some_tx,
    tell,
)
from tests.support.solana_vm import FEE, PYUSD, SEED, SIGNER_KEY, Bench, layout_extensions, mint_data, token_data

LOCALNET = served().chain.caip2
STRANGER = Keypair().pubkey()
RAW = b"\x01raw"
TAKEN = some_tx(1)
OPTIONS = {"encoding": "base64", "preflightCommitment": "confirmed", "maxRetries": 0}


@pytest.fixture(scope="module")
def raws() -> dict[Asset, bytes]:
    """Sign a payment in SOL and one in USDC."""
    bench = Bench()
    return {asset: bench.prepare(asset, "1", STRANGER).raw for asset in (Asset.SOL, Asset.USDC)}


def refusal(error: Any, code: int = -32002) -> dict[str, Any]:
    """Refuse a transaction as a node does that has tried it out."""
    return {"code": code, "message": f"Transaction simulation failed: {error}", "data": {"err": error, "logs": []}}


# --- Sending ----------------------------------------------------------------------------------------------------------
def test_a_transaction_is_offered_to_every_node_which_tries_it_out_once(nodes):
    for one in nodes:
        one.answers |= {"getGenesisHash": GENESIS, "sendTransaction": TAKEN}

    assert adapter(*nodes).send([RAW, RAW]) == [None, None]
    for one in nodes:
        offered = [call["params"] for call in one.requests[-1]]
        assert offered == [[base64.b64encode(RAW).decode(), {**OPTIONS, "skipPreflight": False}]] * 2


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("answer", [TAKEN, refusal("AlreadyProcessed")], ids=["taken", "there already"])
def test_what_one_node_takes_or_has_is_taken(nodes, first, answer):
    for index, one in enumerate(nodes):
        said = answer if (index == 0) is first else refusal("BlockhashNotFound")
        one.answers |= {"getGenesisHash": GENESIS, "sendTransaction": said}

    assert adapter(*nodes).send([RAW]) == [None]


@pytest.mark.parametrize(
    "error", ["BlockhashNotFound", "InsufficientFundsForFee", "AccountNotFound", {"DuplicateInstruction": 1}], ids=str
)
def test_what_would_be_in_no_block_is_refused_and_not_offered_again(node, error):
    node.answers |= {"getGenesisHash": GENESIS, "sendTransaction": refusal(error)}

    assert adapter(node).send([RAW]) == [f"Transaction simulation failed: {error}"]
    assert node.asked.count("sendTransaction") == 1


WOULD_FAIL: dict[str, tuple[Asset, Any]] = {
    "the escrow has not enough SOL": (Asset.SOL, {"InstructionError": [7, {"Custom": 1}]}),
    "the escrow has not enough of a token": (Asset.USDC, {"InstructionError": [4, {"Custom": 1}]}),
    "the temporary account cannot be made": (Asset.SOL, {"InstructionError": [4, {"Custom": 0}]}),
    "the account of the recipient is another's": (Asset.USDC, {"InstructionError": [2, {"Custom": 0}]}),
    "another program fails": (Asset.SOL, {"InstructionError": [6, {"Custom": 1}]}),
    "an account is left with too little": (Asset.SOL, {"InsufficientFundsForRent": {"account_index": 4}}),
    "there is no such instruction": (Asset.SOL, {"InstructionError": [99, {"Custom": 1}]}),
}


@pytest.mark.parametrize(("asset", "error"), WOULD_FAIL.values(), ids=WOULD_FAIL.keys())
def test_what_would_fail_in_a_block_is_sent_to_fail_there(nodes, raws, asset, error, caplog):
    failing = base64.b64encode(raws[asset]).decode()

    def send(raw: str, options: dict[str, Any]) -> Any:
        return TAKEN if options["skipPreflight"] or raw != failing else refusal(error)

    nodes[0].answers |= {"getGenesisHash": GENESIS, "sendTransaction": send}
    nodes[1].answers |= {"getGenesisHash": GENESIS, "sendTransaction": refusal("BlockhashNotFound")}

    assert adapter(*nodes).send([b"\x01another", raws[asset]]) == [None, None]
    assert nodes[0].requests[-1]["params"] == [failing, {**OPTIONS, "skipPreflight": True}]
    assert "will fail on the chain" in caplog.text


@pytest.mark.parametrize(
    ("asset", "lamports"),
    [
        *((asset, lamports) for asset in MINTS for lamports in (FEE - 1, FEE + 1, FEE + LEAST, FEE + RENT - 1)),
        # That of the account that SOL is unwrapped in comes back; then this is enough.
        (Asset.USDC, FEE + RENT + LEAST - 1),
        (Asset.PYUSD, FEE + RENT + LEAST - 1),
    ],
    ids=str,
)
def test_what_would_fail_for_want_of_gas_money_is_refused_and_not_sent_to_fail(node, asset, lamports):
    bench = Bench()
    signed = bench.prepare(asset, "1", STRANGER)
    bench.vm.set_account(RELAYER, Account(lamports, b"", Pubkey.default()))
    outcome = bench.offer(signed.raw)
    assert isinstance(outcome, FailedTransactionMetadata)
    error = json.loads(outcome.to_json())["err"]
    node.answers |= {"getGenesisHash": GENESIS, "sendTransaction": refusal(error)}

    assert adapter(node).send([signed.raw]) == [f"Transaction simulation failed: {error}"]
    assert node.asked.count("sendTransaction") == 1


def test_what_no_node_takes_even_untried_is_refused(node):
    node.answers |= {"getGenesisHash": GENESIS, "sendTransaction": refusal({"InstructionError": [3, "Custom"]})}

    (said,) = adapter(node).send([RAW])

    assert said is not None
    assert node.asked.count("sendTransaction") == 2


def test_nothing_is_taken_while_every_node_is_behind_the_chain(node):
    node.answers |= {"getGenesisHash": GENESIS, "sendTransaction": {"code": -32005, "message": "Node is behind"}}

    with pytest.raises(ChainUnavailable):
        adapter(node).send([RAW])


# --- What is observed -------------------------------------------------------------------------------------------------
def test_what_is_observed_is_all_that_signing_needs(node, truth):
    chain = tell([node], truth)

    seen = chain.observe()

    assert json.loads(json.dumps(seen)) == {
        "configuration": chain.configuration,
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

    assert tell([node], truth).observe()["unitPriceMicroLamports"] == price


def test_a_mint_that_is_not_to_be_paid_with_is_told_and_the_others_go_on(node, truth):
    frozen_by_default = mint_data(extensions=PYUSD | {6: b"\2"})
    truth.accounts[str(MINTS[Asset.PYUSD])] = account(frozen_by_default, str(TOKEN_2022_PROGRAM))
    truth.accounts[str(MINTS[Asset.USDC])] = None

    tokens = tell([node], truth).observe()["tokens"]

    assert tokens["PYUSD"]["objection"] == "The mint of PYUSD freezes every new account."
    assert tokens["USDC"] == {"program": "", "objection": f"There is no USDC at {MINTS[Asset.USDC]}."}
    assert tokens["SOL"]["objection"] is None


def test_a_token_account_in_the_place_of_a_mint_is_told(node, truth):
    truth.accounts[str(MINTS[Asset.USDC])] = holder_account(Asset.USDC)

    assert "is no mint of USDC" in tell([node], truth).observe()["tokens"]["USDC"]["objection"]


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
        assert tell(nodes, truth, 0, **{method: answer}).observe()["slot"] == FINAL

    with pytest.raises(ChainUnavailable):
        tell(nodes[:1], truth, 0, **{method: answer}).observe()


def test_relayers_afford_as_many_payments_as_they_can_pay_at_the_highest_price_and_live_on(node, truth):
    rich, poor, empty = address(), address(), address()
    # A payee's new account may be a longer one; and what pays SOL lends the rent of a plain one.
    cost, kept = 10_000 + UNIT_LIMIT * 5 + find_rent(RENT), LEAST + RENT
    truth.accounts |= {rich: account(lamports=kept + 7 * cost), poor: account(lamports=kept + 7 * cost - 1)}

    seen = tell([node], truth).observe_relayers([rich, poor, empty])

    assert [seen[one].affords for one in (rich, poor, empty)] == [7, 6, 0]
    assert (seen[rich].balance, seen[empty].balance) == (Decimal(kept + 7 * cost).scaleb(-9), Decimal(0))
    assert seen[rich].nonces is None


def test_there_is_one_relayer_and_what_no_block_holds_is_offered_again_soon(node, truth):
    chain = tell([node], truth)

    assert (chain.nonces, chain.most_relayers, chain.resend_after) == (None, 1, timedelta(seconds=2))
    assert chain.relayer_address(0) == str(RELAYER)


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

    assert chain.find_lost(known) == [str(FINAL + 2)]
    asked = [call["method"] for call in node.requests[-1]]
    assert asked == ["getSlot", "getBlocks"]


# --- Reasons ----------------------------------------------------------------------------------------------------------
DESCRIBED: list[tuple[Any, str]] = [
    (
        {"InstructionError": [7, {"Custom": 1}]},
        "Failed: custom program error 0x1 (insufficient funds) in instruction 7.",
    ),
    (
        {"InstructionError": [7, {"Custom": 17}]},
        "Failed: custom program error 0x11 (account is frozen) in instruction 7.",
    ),
    ({"InstructionError": [7, {"Custom": 999}]}, "Failed: custom program error 0x3e7 in instruction 7."),
    (
        {"InstructionError": [3, {"Custom": 1}]},
        "Failed: custom program error 0x1 (insufficient funds) in instruction 3.",
    ),
    ({"InstructionError": [6, {"Custom": 1}]}, "Failed: custom program error 0x1 in instruction 6."),
    ({"InstructionError": [99, {"Custom": 1}]}, "Failed: custom program error 0x1 in instruction 99."),
    ({"InstructionError": [0, "InvalidAccountData"]}, "Failed: InvalidAccountData in instruction 0."),
    (
        {"InsufficientFundsForRent": {"account_index": 4}},
        "Failed: an account would be left with less than the rent-exempt minimum.",
    ),
    (
        {"ProgramExecutionTemporarilyRestricted": {"account_index": 4}},
        'Failed: {"ProgramExecutionTemporarilyRestricted": {"account_index": 4}}.',
    ),
    ("AccountInUse", "Failed: AccountInUse."),
    ("evil\n\x1b[2J\0", "Failed: evil\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}."),
]


@pytest.mark.parametrize(("error", "sentence"), DESCRIBED, ids=[str(error) for error, _ in DESCRIBED])
def test_an_error_is_described_by_the_program_that_raised_it(raws, error, sentence):
    assert describe(error, raws[Asset.SOL]) == sentence


def test_the_last_words_of_the_program_are_part_of_the_reason(node, truth, raws):
    logs = ["Program log: Error: Invalid Mint", "Program Token failed", 5]
    error = {"InstructionError": [4, {"Custom": 2}]}
    tx = truth.land(1, 900, (Asset.USDC, 0, 0), error=error, logs=logs)
    chain = tell([node], truth)
    lost = TransactionQuery(tx, raws[Asset.USDC], None, None, 900, "900")  # type: ignore[arg-type]

    sentence = "Failed: custom program error 0x2 (invalid mint) in instruction 4. Error: Invalid Mint"
    assert chain.find_reason(lost, 900) == sentence
    truth.transactions[tx]["meta"]["logMessages"] = ["Program log: Error: " + "x" * 900]
    assert len(chain.find_reason(lost, 900)) == 500
    truth.transactions.clear()
    assert chain.find_reason(lost, 900) == "Failed."


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

    observed = tell([node], truth).observe()["tokens"]

    assert observed["PYUSD"]["objection"].startswith(sentence)
    assert {asset for asset, token in observed.items() if token["objection"]} == {"PYUSD"}
    inspection = tell([node], truth).inspect([])
    assert inspection.find_mismatches() == []
    assert [one["objection"] for one in inspection.as_json()["tokens"] if one["asset"] == "PYUSD"] == [
        observed["PYUSD"]["objection"]
    ]


def test_a_chain_that_is_what_is_configured_has_no_mismatch(nodes, truth):
    assert tell(nodes, truth).find_mismatches([]) == []


@pytest.mark.parametrize(("there", "sentence"), MISMATCHES.values(), ids=MISMATCHES.keys())
def test_an_escrow_that_is_not_what_it_should_be_is_a_mismatch(node, truth, there, sentence):
    truth.accounts |= there

    (found,) = tell([node], truth).find_mismatches([])

    assert found.startswith(sentence)


def test_another_escrow_than_our_keys_have_is_a_mismatch(node, truth):
    node.answers = truth.answers()

    (found,) = adapter(node, escrow=str(STRANGER)).find_mismatches([])

    assert found == f"The escrow of our relayer, policy signer and owner is {TOKEN_ESCROW}, not {STRANGER}."


def test_an_escrow_of_another_owner_than_the_configured_one_is_a_mismatch(node, truth):
    node.answers = truth.answers()
    other = replace(SIGNERS, owner=STRANGER)

    found = SolanaChain(served(node), SEED, other).find_mismatches([])

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
    chain = SolanaChain(served(node, escrow=str(signers.escrow(TOKEN_PROGRAM))), SEED, signers)

    (found,) = chain.find_mismatches([])

    assert found.startswith(sentence)


def test_a_node_of_another_chain_among_several_is_a_mismatch(nodes, truth):
    other = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"
    chain = tell(nodes, truth, 0, getGenesisHash=other)

    assert chain.find_mismatches([]) == [f"Node 1 of 2 is of the chain {other}, not of {GENESIS[:32]}…."]


def test_a_mint_that_is_not_to_be_paid_with_is_no_mismatch_of_the_chain(node, truth):
    truth.accounts[str(MINTS[Asset.PYUSD])] = account(mint_data(9, extensions=PYUSD), str(TOKEN_2022_PROGRAM))
    truth.accounts[HOLDERS[Asset.PYUSD]] = None

    assert tell([node], truth).find_mismatches([]) == []


@pytest.mark.parametrize(
    "lies",
    [{"getMultipleAccounts": {"code": 1, "message": "no"}}, {"getMultipleAccounts": None}, {"getGenesisHash": None}],
    ids=["an error", "nothing", "of no chain"],
)
def test_nodes_that_cannot_tell_say_nothing_about_the_escrow(node, truth, lies):
    with pytest.raises(ChainUnavailable):
        tell([node], truth, 0, **lies).find_mismatches([])


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

"""A transaction is offered to every Solana node; what their refusals say."""

import base64
import json
from typing import Any

import pytest
from solders.account import Account
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.transaction_metadata import FailedTransactionMetadata

from chains.port import ChainUnavailable, TransactionQuery
from chains.solana.failures import describe
from foundation.kernel.assets import Asset
from tests.support.fake_solana_nodes import GENESIS, LEAST, MINTS, RELAYER, RENT, adapter, some_tx, tell
from tests.support.solana_vm import FEE, Bench

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

    assert adapter(*nodes).broadcaster.send([RAW, RAW]) == [None, None]
    for one in nodes:
        offered = [call["params"] for call in one.requests[-1]]
        assert offered == [[base64.b64encode(RAW).decode(), {**OPTIONS, "skipPreflight": False}]] * 2


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("answer", [TAKEN, refusal("AlreadyProcessed")], ids=["taken", "there already"])
def test_what_one_node_takes_or_has_is_taken(nodes, first, answer):
    for index, one in enumerate(nodes):
        said = answer if (index == 0) is first else refusal("BlockhashNotFound")
        one.answers |= {"getGenesisHash": GENESIS, "sendTransaction": said}

    assert adapter(*nodes).broadcaster.send([RAW]) == [None]


@pytest.mark.parametrize(
    "error", ["BlockhashNotFound", "InsufficientFundsForFee", "AccountNotFound", {"DuplicateInstruction": 1}], ids=str
)
def test_what_would_be_in_no_block_is_refused_and_not_offered_again(node, error):
    node.answers |= {"getGenesisHash": GENESIS, "sendTransaction": refusal(error)}

    assert adapter(node).broadcaster.send([RAW]) == [f"Transaction simulation failed: {error}"]
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

    assert adapter(*nodes).broadcaster.send([b"\x01another", raws[asset]]) == [None, None]
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

    assert adapter(node).broadcaster.send([signed.raw]) == [f"Transaction simulation failed: {error}"]
    assert node.asked.count("sendTransaction") == 1


def test_what_no_node_takes_even_untried_is_refused(node):
    node.answers |= {"getGenesisHash": GENESIS, "sendTransaction": refusal({"InstructionError": [3, "Custom"]})}

    (said,) = adapter(node).broadcaster.send([RAW])

    assert said is not None
    assert node.asked.count("sendTransaction") == 2


def test_nothing_is_taken_while_every_node_is_behind_the_chain(node):
    node.answers |= {"getGenesisHash": GENESIS, "sendTransaction": {"code": -32005, "message": "Node is behind"}}

    with pytest.raises(ChainUnavailable):
        adapter(node).broadcaster.send([RAW])


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
    lost = TransactionQuery(tx, raws[Asset.USDC], None, [], 900, "900")  # type: ignore[arg-type]

    sentence = "Failed: custom program error 0x2 (invalid mint) in instruction 4. Error: Invalid Mint"
    assert chain.follower.find_reason(lost, 900) == sentence
    truth.transactions[tx]["meta"]["logMessages"] = ["Program log: Error: " + "x" * 900]
    assert len(chain.follower.find_reason(lost, 900)) == 500
    truth.transactions.clear()
    assert chain.follower.find_reason(lost, 900) == "Failed."

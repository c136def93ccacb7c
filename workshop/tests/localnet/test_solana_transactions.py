"""Transactions: what lands, what it costs, and what does not land."""

import base64

import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from workshop.tests.localnet.solana_chain import (
    FAUCET,
    FINALIZED,
    PROCESSED,
    SIGNATURE_FEE,
    SOL,
    STRANGER,
    SolanaChain,
    in_base64,
    memo,
    pay,
    priority,
)

RENT_OF_NOTHING = 890_880


def test_a_transaction_waits_for_the_next_slot_and_becomes_final_four_blocks_later(solana):
    sent = solana.send(pay(SOL))
    assert solana.status(sent) is None
    seen = []
    for _ in range(5):
        solana.pass_time(0.4)
        status = solana.status(sent)
        seen.append((status["confirmationStatus"], status["confirmations"], status["slot"]))
    assert seen == [
        ("processed", 0, 1),
        ("confirmed", 1, 1),
        ("confirmed", 2, 1),
        ("confirmed", 3, 1),
        ("finalized", None, 1),
    ]
    assert solana.lamports(STRANGER, FINALIZED) == SOL


@pytest.mark.parametrize("encoding", ["base58", "base64"])
def test_a_transaction_is_taken_in_both_encodings_and_both_versions(solana, encoding):
    message = Message.new_with_blockhash([pay(SOL)], FAUCET.pubkey(), Hash.from_string(solana.blockhash()))
    transaction = VersionedTransaction(message, [FAUCET])
    texts = {"base64": in_base64(transaction), "base58": str(transaction_base58(transaction))}
    sent = solana.offer(texts[encoding], encoding=encoding)
    assert sent == str(transaction.signatures[0])
    solana.rpc("dev_nextBlock")
    solana.rpc("dev_nextBlock")
    assert solana.transaction(sent)["version"] == "legacy"
    # Who does not mention versions is understood to know the older one.
    assert "version" not in solana.rpc("getTransaction", sent, {"commitment": "confirmed"})


def transaction_base58(transaction):
    # A signature's text is base58, too, but only of 64 bytes.
    number, digits = int.from_bytes(bytes(transaction)), ""
    while number:
        number, digit = divmod(number, 58)
        digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"[digit] + digits
    return digits


def test_the_same_transaction_lands_once_however_often_it_is_sent(solana):
    text = solana.signed(pay(SOL))
    assert solana.offer(text) == solana.offer(text)
    solana.rpc("dev_nextBlock")
    refused = solana.offer(text)
    assert refused["message"] == "Transaction simulation failed: This transaction has already been processed"
    assert refused["data"]["err"] == "AlreadyProcessed"
    solana.offer(text, skipPreflight=True)
    solana.rpc("dev_nextBlock")
    assert solana.lamports(STRANGER) == SOL


def test_the_same_transaction_does_not_land_again_after_a_restart(solana, tmp_path):
    text = solana.signed(pay(SOL))
    solana.offer(text)
    solana.rpc("dev_nextBlock")
    solana.database.close()
    again = SolanaChain(tmp_path, now_s=solana.now_s)
    again.offer(text, skipPreflight=True)
    again.rpc("dev_nextBlock")
    assert again.lamports(STRANGER) == SOL
    again.database.close()


def test_a_transaction_that_fails_is_in_the_block_and_pays_its_fee(solana):
    text = solana.signed(*priority(10_000, 1_000_000), pay(SOL), pay(10**18))
    refused = solana.offer(text)
    assert refused["code"] == -32002
    assert refused["message"].endswith("Error processing Instruction 3: custom program error: 0x1")
    assert refused["data"]["logs"][-1].endswith("failed: custom program error: 0x1")
    before = solana.lamports(FAUCET.pubkey())

    sent = solana.offer(text, skipPreflight=True)
    solana.rpc("dev_nextBlock")
    solana.rpc("dev_nextBlock")

    assert solana.lamports(STRANGER) == 0
    assert before - solana.lamports(FAUCET.pubkey()) == SIGNATURE_FEE + 10_000
    failure = {"InstructionError": [3, {"Custom": 1}]}
    status = solana.status(sent)
    assert (status["err"], status["status"]) == (failure, {"Err": failure})
    meta = solana.transaction(sent)["meta"]
    assert (meta["err"], meta["fee"]) == (failure, SIGNATURE_FEE + 10_000)
    assert meta["preBalances"][0] - meta["postBalances"][0] == meta["fee"]


def test_the_fee_is_told_before(solana):
    message = MessageV0.try_compile(
        FAUCET.pubkey(), [*priority(10_000, 1_000_000), pay(1)], [], Hash.from_string(solana.blockhash())
    )
    text = in_base64(VersionedTransaction.populate(message, []))
    # A transaction without signatures is its message behind a zero.
    assert text.startswith("AIAB")

    only_message = base64.b64encode(base64.b64decode(text)[1:]).decode()
    assert solana.rpc("getFeeForMessage", only_message, PROCESSED)["value"] == SIGNATURE_FEE + 10_000
    solana.rpc("dev_advance", 200)
    assert solana.rpc("getFeeForMessage", only_message, PROCESSED)["value"] is None


def test_nothing_is_left_of_a_transaction_whose_fee_nobody_can_pay(solana):
    poor = Keypair()
    text = solana.signed(pay(1, by=poor), by=poor)
    assert solana.offer(text)["data"]["err"] == "AccountNotFound"
    sent = solana.offer(text, skipPreflight=True)
    solana.rpc("dev_nextBlock")
    assert solana.status(sent) is None


@pytest.mark.parametrize("tamper", ["missing", "foreign"])
def test_a_transaction_with_a_wrong_signature_never_lands(solana, tamper):
    message = MessageV0.try_compile(FAUCET.pubkey(), [pay(SOL)], [], Hash.from_string(solana.blockhash()))
    wrong = Signature.default() if tamper == "missing" else FAUCET.sign_message(b"something else")
    text = in_base64(VersionedTransaction.populate(message, [wrong]))
    assert solana.offer(text)["code"] == -32003
    assert isinstance(solana.offer(text, skipPreflight=True), str)
    solana.rpc("dev_nextBlock")
    assert solana.status(str(wrong)) is None
    assert solana.lamports(STRANGER) == 0
    # To try it, nobody need sign.
    tried = solana.rpc("simulateTransaction", text, {"encoding": "base64", **PROCESSED})["value"]
    assert tried["err"] is None
    assert tried["unitsConsumed"] == 150


@pytest.mark.parametrize(
    ("lamports", "error"), [(RENT_OF_NOTHING - 1, "InsufficientFundsForRent"), (RENT_OF_NOTHING, None)]
)
def test_a_new_account_needs_the_rent_of_nothing(solana, lamports, error):
    assert solana.rpc("getMinimumBalanceForRentExemption", 0) == RENT_OF_NOTHING
    assert solana.rpc("getMinimumBalanceForRentExemption", 165) == 2_039_280
    answer = solana.offer(solana.signed(pay(lamports)))
    if error is None:
        assert isinstance(answer, str)
    else:
        assert answer["data"]["err"] == {error: {"account_index": 1}}
        assert answer["message"].endswith("Transaction results in an account (1) with insufficient funds for rent")


def test_a_simulation_shows_the_accounts_that_it_is_asked_for(solana):
    nobody = Pubkey(bytes([9]) * 32)
    options = {
        "encoding": "base64",
        "replaceRecentBlockhash": True,
        "accounts": {"encoding": "base64", "addresses": [str(STRANGER), str(nobody)]},
    }
    text = solana.signed(pay(SOL), blockhash=str(Hash.default()))
    result = solana.rpc("simulateTransaction", text, options)["value"]
    assert result["err"] is None
    assert [one and one["lamports"] for one in result["accounts"]] == [SOL, None]
    assert solana.rpc("isBlockhashValid", result["replacementBlockhash"]["blockhash"])["value"]
    assert solana.rpc("simulateTransaction", text, {"encoding": "base64"})["value"]["err"] == "BlockhashNotFound"


def test_an_airdrop_can_be_repeated(solana):
    first, second = (solana.rpc("requestAirdrop", str(STRANGER), SOL) for _ in range(2))
    assert first != second
    solana.rpc("dev_nextBlock")
    assert solana.lamports(STRANGER) == 2 * SOL


def test_transactions_of_one_block_keep_their_order(solana):
    other = Keypair()
    solana.send(pay(SOL, to=other.pubkey()))
    solana.offer(solana.signed(pay(SOL - SIGNATURE_FEE, by=other), memo("second"), by=other), skipPreflight=True)
    solana.rpc("dev_nextBlock")
    assert solana.lamports(STRANGER) == SOL - SIGNATURE_FEE
    assert solana.lamports(other.pubkey()) == 0


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (7, {}),
        ("0OIl", {"encoding": "base58"}),
        ("not base64!", {}),
        ("AAAA", {}),
        ("A" * 5000, {}),
        ("AA==", {"encoding": "hex"}),
    ],
)
def test_what_is_no_transaction_is_refused(solana, text, options):
    assert solana.offer(text, **options)["code"] == -32602

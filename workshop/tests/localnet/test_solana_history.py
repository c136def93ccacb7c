"""What the chain tells about the past: signatures by address, transactions, token balances, blocks."""

import base64

import pytest
from solders.account import Account
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.hash import Hash
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from spl.token.constants import TOKEN_PROGRAM_ID, WRAPPED_SOL_MINT
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    get_associated_token_address,
    sync_native,
)
from spl.token.models import SyncNativeParams

from workshop.tests.localnet.solana_chain import (
    CONFIRMED,
    FAUCET,
    FINALIZED,
    PROCESSED,
    SOL,
    STRANGER,
    in_base64,
    memo,
    pay,
)

LOOKUP_PROGRAM = "AddressLookupTab1e1111111111111111111111111"
# Active, of no authority, as AddressLookupTable's header says it.
LOOKUP_HEADER = bytes([1, 0, 0, 0]) + b"\xff" * 8 + bytes(44)


@pytest.fixture
def history(solana):
    """Five payments, two of them in one block and one that failed; returned oldest first. All are final."""
    sent = [solana.land(pay(SOL), memo("first"))]
    sent += [solana.send(pay(1)), solana.send(pay(2))]
    solana.rpc("dev_nextBlock")
    sent += [solana.land(pay(SOL), pay(10**18)), solana.land(pay(3), memo("one"), memo("zwei"))]
    solana.finalise()
    return sent


def found(solana, **config):
    return [one["signature"] for one in solana.rpc("getSignaturesForAddress", str(STRANGER), config)]


def test_signatures_of_an_address_are_listed_newest_first(solana, history):
    entries = solana.rpc("getSignaturesForAddress", str(STRANGER))
    assert [one["signature"] for one in entries] == history[::-1]
    assert [one["memo"] for one in entries] == ["[3] one; [4] zwei", None, None, None, "[5] first"]
    assert [one["err"] for one in entries] == [None, {"InstructionError": [1, {"Custom": 1}]}, None, None, None]
    assert [one["slot"] for one in entries] == [4, 3, 2, 2, 1]
    assert {one["confirmationStatus"] for one in entries} == {"finalized"}
    assert entries[0]["blockTime"] == solana.rpc("getBlockTime", 4)
    assert solana.rpc("getSignaturesForAddress", str(Pubkey(bytes([9]) * 32))) == []


def test_signatures_are_listed_in_pages(solana, history):
    newest_first = history[::-1]
    assert found(solana, limit=2) == newest_first[:2]
    assert found(solana, limit=2, before=newest_first[1]) == newest_first[2:4]
    assert found(solana, before=newest_first[2], until=newest_first[4]) == newest_first[3:4]
    assert found(solana, until=newest_first[2]) == newest_first[:2]
    unknown = "5" * 87
    assert found(solana, until=unknown) == newest_first
    assert found(solana, before=unknown) == []
    for limit in (0, 1001, "2"):
        assert solana.rpc("getSignaturesForAddress", str(STRANGER), {"limit": limit})["code"] == -32602


def test_what_a_commitment_does_not_know_is_not_told(solana, history):
    sent = solana.land(pay(4))
    assert found(solana) == history[::-1]
    assert found(solana, **CONFIRMED) == history[::-1]
    assert solana.transaction(sent) is None
    solana.rpc("dev_nextBlock")
    assert found(solana, **CONFIRMED) == [sent, *history[::-1]]
    assert found(solana, **FINALIZED) == history[::-1]
    assert solana.transaction(sent)["slot"] == solana.status(sent)["slot"]
    assert solana.rpc("getTransaction", sent, {"maxSupportedTransactionVersion": 0}) is None
    for method, subject in (("getTransaction", sent), ("getSignaturesForAddress", str(STRANGER))):
        assert (
            solana.rpc(method, subject, PROCESSED)["message"] == "Method does not support commitment below `confirmed`"
        )


def test_old_states_are_told_only_to_who_asks_for_history(solana):
    sent = solana.land(pay(SOL))
    assert solana.rpc("getSignatureStatuses", [sent, "5" * 87])["value"][1] is None
    solana.rpc("dev_advance", 200)
    assert solana.rpc("getSignatureStatuses", [sent])["value"] == [None]
    assert solana.status(sent)["confirmationStatus"] == "finalized"


def test_a_transaction_is_shown_as_it_was_sent(solana):
    text = solana.signed(pay(SOL), memo("hello"))
    sent = solana.offer(text)
    solana.rpc("dev_nextBlock")
    solana.rpc("dev_nextBlock")
    config = {**CONFIRMED, "maxSupportedTransactionVersion": 0}
    assert solana.rpc("getTransaction", sent, config | {"encoding": "base64"})["transaction"] == [text, "base64"]
    shown = solana.rpc("getTransaction", sent, config)
    assert (shown["version"], shown["slot"], shown["transaction"]["signatures"]) == (0, 1, [sent])
    message = shown["transaction"]["message"]
    transaction = VersionedTransaction.from_bytes(base64.b64decode(text))
    assert message["accountKeys"] == [str(key) for key in transaction.message.account_keys]
    assert message["recentBlockhash"] == str(transaction.message.recent_blockhash)
    assert message["header"]["numRequiredSignatures"] == 1
    assert message["instructions"][1]["data"] == "Cn8eVZg"
    assert message["accountKeys"][message["instructions"][0]["programIdIndex"]] == str(Pubkey.default())
    assert shown["meta"]["innerInstructions"] == []
    assert "Program log: hello" in shown["meta"]["logMessages"]
    assert shown["meta"]["computeUnitsConsumed"] > 150
    # Who does not say that it understands versions gets none of this one.
    assert solana.rpc("getTransaction", sent, CONFIRMED)["code"] == -32015


def test_token_balances_are_shown_before_and_after(solana):
    account = get_associated_token_address(STRANGER, WRAPPED_SOL_MINT)
    made = create_idempotent_associated_token_account(FAUCET.pubkey(), STRANGER, WRAPPED_SOL_MINT)
    synced = sync_native(SyncNativeParams(program_id=TOKEN_PROGRAM_ID, account=account))
    created = solana.land(made, pay(5 * SOL // 2, to=account), synced)
    paid = solana.land(pay(7, to=account), synced)
    solana.finalise()

    meta = solana.transaction(created)["meta"]
    keys = solana.transaction(created)["transaction"]["message"]["accountKeys"]
    assert meta["preTokenBalances"] == []
    assert meta["postTokenBalances"] == [
        {
            "accountIndex": keys.index(str(account)),
            "mint": str(WRAPPED_SOL_MINT),
            "owner": str(STRANGER),
            "programId": str(TOKEN_PROGRAM_ID),
            "uiTokenAmount": {"amount": "2500000000", "decimals": 9, "uiAmount": 2.5, "uiAmountString": "2.5"},
        }
    ]
    (called,) = meta["innerInstructions"]
    assert called["index"] == 0
    assert {one["stackHeight"] for one in called["instructions"]} == {2}
    # The mint is not among the accounts of the second one.
    meta = solana.transaction(paid)["meta"]
    amounts = [meta[side][0]["uiTokenAmount"]["uiAmountString"] for side in ("preTokenBalances", "postTokenBalances")]
    assert amounts == ["2.5", "2.500000007"]
    assert solana.rpc("getTokenAccountBalance", str(account))["value"]["amount"] == "2500000007"
    assert solana.rpc("getTokenAccountBalance", str(STRANGER))["message"] == "Invalid param: could not find account"
    wallet = solana.rpc("getTokenAccountBalance", str(FAUCET.pubkey()))
    assert wallet["message"] == "Invalid param: not a Token account"


def test_accounts_from_a_lookup_table_are_shown_and_found(solana):
    solana.rpc("dev_nextBlock")  # a table cannot be used in the slot that extended it
    table = Pubkey(bytes([8]) * 32)
    data = base64.b64encode(LOOKUP_HEADER + bytes(STRANGER)).decode()
    solana.rpc("dev_setAccount", str(table), {"lamports": SOL, "owner": LOOKUP_PROGRAM, "data": [data, "base64"]})
    message = MessageV0.try_compile(
        FAUCET.pubkey(),
        [pay(SOL)],
        [AddressLookupTableAccount(table, [STRANGER])],
        Hash.from_string(solana.blockhash()),
    )
    sent = solana.offer(in_base64(VersionedTransaction(message, [FAUCET])))
    solana.finalise()
    shown = solana.transaction(sent)
    assert shown["meta"]["loadedAddresses"] == {"writable": [str(STRANGER)], "readonly": []}
    assert str(STRANGER) not in shown["transaction"]["message"]["accountKeys"]
    assert shown["transaction"]["message"]["addressTableLookups"] == [
        {"accountKey": str(table), "writableIndexes": [0], "readonlyIndexes": []}
    ]
    assert shown["meta"]["postBalances"][-1] == solana.lamports(STRANGER) == SOL
    solana.rpc("dev_nextBlock")
    assert found(solana) == [sent]


def test_blocks_are_shown_with_what_they_hold(solana, history):
    block = solana.rpc("getBlock", 2, {"transactionDetails": "signatures"})
    assert block["signatures"] == history[1:3]
    assert (block["blockHeight"], block["parentSlot"]) == (2, 1)
    assert block["previousBlockhash"] == solana.rpc("getBlock", 1, {"transactionDetails": "none"})["blockhash"]
    full = solana.rpc("getBlock", 2, {"maxSupportedTransactionVersion": 0})
    assert [one["transaction"]["signatures"][0] for one in full["transactions"]] == history[1:3]
    assert solana.rpc("getEpochInfo")["transactionCount"] == 5
    solana.rpc("dev_advance", 30)
    assert solana.rpc("getBlock", 15)["code"] == -32007
    assert solana.rpc("getBlock", 17, {"transactionDetails": "none"})["parentSlot"] == 16
    assert solana.rpc("getBlock", 16, {"transactionDetails": "none"})["parentSlot"] == 14
    assert solana.rpc("getBlock", 10_000)["code"] == solana.rpc("getBlockTime", 10_000)["code"] == -32004
    assert solana.rpc("getBlocks", 13, 17) == [13, 14, 16, 17]
    assert solana.rpc("getBlocksWithLimit", 13, 3) == [13, 14, 16]
    assert solana.rpc("getBlocksWithLimit", 10_000, 3) == []


@pytest.mark.parametrize(("encoding", "data"), [("base64", ["AgM=", "base64"]), ("base58", ["9t", "base58"])])
def test_a_part_of_an_accounts_data_can_be_read(solana, encoding, data):
    text = base64.b64encode(bytes([1, 2, 3, 4])).decode()
    given = {"lamports": SOL, "owner": LOOKUP_PROGRAM, "data": [text, "base64"]}
    solana.rpc("dev_setAccount", str(STRANGER), given)
    config = {"encoding": encoding, "dataSlice": {"offset": 1, "length": 2}}
    value = solana.rpc("getAccountInfo", str(STRANGER), config)["value"]
    assert value == {
        **given,
        "data": data,
        "executable": False,
        "rentEpoch": 2**64 - 1,
        "space": 4,
    }
    assert solana.node.chain.account(STRANGER, solana.node.chain.bank("finalized")) == Account(
        SOL, bytes([1, 2, 3, 4]), Pubkey.from_string(LOOKUP_PROGRAM), rent_epoch=2**64 - 1
    )


def test_what_was_set_is_kept_and_can_be_removed(solana):
    solana.land(pay(SOL))
    solana.rpc("dev_setAccount", str(STRANGER), {"lamports": 7, "owner": LOOKUP_PROGRAM})
    assert solana.lamports(STRANGER, FINALIZED) == solana.lamports(STRANGER) == 7
    solana.rpc("dev_setAccount", str(STRANGER))
    assert solana.rpc("getAccountInfo", str(STRANGER), PROCESSED)["value"] is None

"""The node behind HTTP: the shapes of its answers as a client of Solana reads them, errors, and kill -9."""

import base64
import http.client
import json
import os
import signal
from typing import Any

import pytest
from solders.rpc import responses
from solders.sysvar import CLOCK
from spl.token.constants import TOKEN_PROGRAM_ID, WRAPPED_SOL_MINT

from workshop.localnet import rpc
from workshop.tests.localnet.installation import wait_for
from workshop.tests.localnet.solana_chain import CONFIRMED, FINALIZED, PROCESSED, SOL, STRANGER, memo, pay

VERSION_0 = {"maxSupportedTransactionVersion": 0}


def test_it_answers_batches(solana, solana_url):
    connection = http.client.HTTPConnection(solana_url.removeprefix("http://"))
    wanted = ["getGenesisHash", "getHealth", "getSlot", "getNothing"]
    body = [{"jsonrpc": "2.0", "id": name, "method": name} for name in wanted]
    connection.request("POST", "/", json.dumps(body), {"Content-Type": "application/json"})
    answers = {one["id"]: one for one in json.load(connection.getresponse())}
    connection.close()
    assert answers["getGenesisHash"]["result"] == "344CYC6QPrjfKUUBqcXLDFNyf9NBqJLa7k6kgSVhUD4U"
    assert answers["getHealth"]["result"] == "ok"
    assert answers["getSlot"]["result"] == 0
    assert answers["getNothing"]["error"]["code"] == -32601


def test_a_solana_client_understands_every_answer(solana, solana_url):
    solana.rpc("dev_advance", 20)
    slot = solana.rpc("getSlot", PROCESSED)
    options = {"encoding": "base64", "preflightCommitment": "processed"}
    sent = rpc.request(solana_url, "sendTransaction", solana.signed(pay(SOL), memo("x")), options)
    failed = solana.send(pay(10**18))
    solana.finalise()
    text = solana.signed(pay(SOL))
    message = base64.b64encode(base64.b64decode(text)[65:]).decode()
    stranger, mint = str(STRANGER), str(WRAPPED_SOL_MINT)
    asked: dict[Any, tuple[Any, ...]] = {
        responses.GetAccountInfoResp: ("getAccountInfo", str(CLOCK), {"encoding": "base64"}),
        responses.GetBalanceResp: ("getBalance", stranger),
        responses.GetBlockHeightResp: ("getBlockHeight", CONFIRMED),
        responses.GetBlockResp: ("getBlock", slot + 1, CONFIRMED | VERSION_0),
        responses.GetBlocksResp: ("getBlocks", 0, 20),
        responses.GetBlockTimeResp: ("getBlockTime", slot),
        responses.GetEpochInfoResp: ("getEpochInfo",),
        responses.GetFeeForMessageResp: ("getFeeForMessage", message, PROCESSED),
        responses.GetFirstAvailableBlockResp: ("getFirstAvailableBlock",),
        responses.GetGenesisHashResp: ("getGenesisHash",),
        responses.GetHealthResp: ("getHealth",),
        responses.GetLatestBlockhashResp: ("getLatestBlockhash",),
        responses.GetMinimumBalanceForRentExemptionResp: ("getMinimumBalanceForRentExemption", 165),
        responses.GetMultipleAccountsResp: ("getMultipleAccounts", [stranger, mint]),
        responses.GetRecentPrioritizationFeesResp: ("getRecentPrioritizationFees", [stranger]),
        responses.GetSignaturesForAddressResp: ("getSignaturesForAddress", stranger, CONFIRMED),
        responses.GetSignatureStatusesResp: ("getSignatureStatuses", [sent, failed]),
        responses.GetSlotResp: ("getSlot",),
        responses.GetTransactionResp: ("getTransaction", failed, CONFIRMED | VERSION_0),
        responses.GetVersionResp: ("getVersion",),
        responses.IsBlockhashValidResp: ("isBlockhashValid", solana.blockhash()),
        responses.MinimumLedgerSlotResp: ("minimumLedgerSlot",),
        responses.RequestAirdropResp: ("requestAirdrop", stranger, SOL),
        responses.SendTransactionResp: ("sendTransaction", text, {"encoding": "base64", "skipPreflight": True}),
        responses.SimulateTransactionResp: ("simulateTransaction", text, {"encoding": "base64", **PROCESSED}),
    }
    for kind, question in asked.items():
        answer = solana.ask({"jsonrpc": "2.0", "id": 1, "method": question[0], "params": question[1:]})
        assert isinstance(kind.from_json(json.dumps(answer)), kind), (question, answer)


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("getBalance", [], -32602),
        ("getBalance", ["nobody"], -32602),
        ("getBalance", [7], -32602),
        ("getBalance", [str(STRANGER), "finalized"], -32602),
        ("getBalance", [str(STRANGER), {"commitment": "recent"}], -32602),
        ("getMultipleAccounts", [[str(STRANGER)] * 101], -32602),
        ("getSignatureStatuses", [["5" * 87] * 257], -32602),
        ("getSignatureStatuses", [["x"]], -32602),
        ("getTransaction", [str(STRANGER)], -32602),
        ("getAccountInfo", [str(STRANGER), {"encoding": "jsonParsed"}], -32602),
        ("getAccountInfo", [str(TOKEN_PROGRAM_ID), {"dataSlice": {"offset": 0}}], -32602),
        ("getAccountInfo", ["ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"], -32600),
        ("isBlockhashValid", ["0"], -32602),
        ("dev_advance", [-1], -32602),
        ("dev_setAccount", [str(STRANGER), {"lamports": 1}], -32602),
        ("dev_setAccount", [str(STRANGER), {"lamports": 1, "owner": str(STRANGER), "data": "x"}], -32602),
    ],
)
def test_wrong_parameters_are_refused(solana, method, params, code):
    assert solana.rpc(method, *params)["code"] == code


def test_what_was_confirmed_survives_kill_9(install):
    here = install(only=["solana"])
    process, _ = here.use()
    sent = here.solana("requestAirdrop", str(STRANGER), SOL)

    def confirmed():
        (status,) = here.solana("getSignatureStatuses", [sent])["value"]
        return status if status and status["confirmationStatus"] != "processed" else None

    # Blocks are made by the wall clock.
    wait_for(confirmed)
    slot, landed = here.solana("getSlot", PROCESSED), confirmed()["slot"]
    os.kill(here.pids()["solana"], signal.SIGKILL)
    wait_for(lambda: here.pids() == {})

    here.use()

    assert here.solana("getSlot", PROCESSED) >= slot
    (status,) = here.solana("getSignatureStatuses", [sent], {"searchTransactionHistory": True})["value"]
    assert (status["slot"], status["err"], status["confirmationStatus"]) == (landed, None, "finalized")
    assert here.solana("getBalance", str(STRANGER), FINALIZED)["value"] == SOL
    process.kill()

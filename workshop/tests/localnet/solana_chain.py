"""A Solana node in this process, without HTTP; its time passes and its blocks are made when a test says so."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction
from spl.memo.constants import MEMO_PROGRAM_ID

from workshop.localnet.jsonrpc.protocol import Protocol
from workshop.localnet.solana.chain import Chain
from workshop.localnet.solana.database import Database
from workshop.localnet.solana.methods import METHODS
from workshop.localnet.solana.node import Node

FAUCET = Keypair.from_seed(bytes([1]) * 32)
STRANGER = Pubkey(bytes([2]) * 32)
GENESIS_S = 1_800_000_000
SOL = 10**9
SIGNATURE_FEE = 5_000
PROCESSED, CONFIRMED, FINALIZED = ({"commitment": name} for name in ("processed", "confirmed", "finalized"))


class SolanaChain:
    """The node and one account with SOL."""

    def __init__(self, path: Path, *, now_s: float = GENESIS_S) -> None:
        self.now_s = now_s
        self.database = Database(path / "chain.sqlite3")
        chain = Chain(self.database, faucet=FAUCET.pubkey(), now_ms=int(now_s * 1000))
        self.node = Node(chain, clock=lambda: self.now_s)
        self.protocol = Protocol(self.node, METHODS)

    def ask(self, body: Any) -> Any:
        """Send a body and return the answer's JSON."""
        return json.loads(self.protocol.answer(json.dumps(body).encode()))

    def rpc(self, method: str, *params: Any) -> Any:
        """Return the result of a method, or its error object."""
        body = self.ask({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
        return body["result"] if "result" in body else body["error"]

    def pass_time(self, seconds: float) -> None:
        """Let time pass; the node notices."""
        self.now_s += seconds
        self.node.tick()

    def finalise(self) -> None:
        """Let what is on the chain now become final."""
        for _ in range(4):
            self.rpc("dev_nextBlock")

    def blockhash(self) -> str:
        """Return the newest blockhash."""
        answer: str = self.rpc("getLatestBlockhash", PROCESSED)["value"]["blockhash"]
        return answer

    def lamports(self, address: Pubkey, commitment: dict[str, str] = PROCESSED) -> int:
        """Return a balance."""
        return int(self.rpc("getBalance", str(address), commitment)["value"])

    def signed(self, *instructions: Instruction, by: Keypair = FAUCET, blockhash: str | None = None) -> str:
        """Sign a transaction and return it in base64."""
        recent = Hash.from_string(blockhash or self.blockhash())
        message = MessageV0.try_compile(by.pubkey(), instructions, [], recent)
        return in_base64(VersionedTransaction(message, [by]))

    def offer(self, text: str, **options: Any) -> Any:
        """Send a signed transaction; returns its signature, or an error object."""
        known = {"encoding": "base64", "preflightCommitment": "processed"}
        return self.rpc("sendTransaction", text, known | options)

    def send(self, *instructions: Instruction, **options: Any) -> str:
        """Send a transaction of the faucet, which is not tried before, and return its signature."""
        sent = self.offer(self.signed(*instructions), skipPreflight=True, **options)
        assert isinstance(sent, str), sent
        return sent

    def land(self, *instructions: Instruction) -> str:
        """Send a transaction and make a block of it."""
        sent = self.send(*instructions)
        self.rpc("dev_nextBlock")
        return sent

    def status(self, signature: str) -> Any:
        """Return what became of a transaction, None if nothing is known."""
        return self.rpc("getSignatureStatuses", [signature], {"searchTransactionHistory": True})["value"][0]

    def transaction(self, signature: str) -> Any:
        """Return a transaction at `confirmed`."""
        return self.rpc("getTransaction", signature, {**CONFIRMED, "maxSupportedTransactionVersion": 0})


def pay(lamports: int, to: Pubkey = STRANGER, by: Keypair = FAUCET) -> Instruction:
    """Return a transfer of SOL."""
    return transfer(TransferParams(from_pubkey=by.pubkey(), to_pubkey=to, lamports=lamports))


def memo(text: str) -> Instruction:
    """Return a memo."""
    return Instruction(MEMO_PROGRAM_ID, text.encode(), [])


def priority(limit: int, micro_lamports: int) -> Sequence[Instruction]:
    """Return what sets a priority fee."""
    return set_compute_unit_limit(limit), set_compute_unit_price(micro_lamports)


def in_base64(transaction: VersionedTransaction) -> str:
    """Return a transaction as it is sent."""
    return base64.b64encode(bytes(transaction)).decode()

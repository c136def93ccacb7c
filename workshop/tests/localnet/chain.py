"""A node in this process, without HTTP and without a clock: blocks are made when a test says so."""

import json
from pathlib import Path
from typing import Any

from eth_abi.abi import encode
from eth_account import Account
from eth_utils.address import to_canonical_address
from eth_utils.crypto import keccak

from workshop.embedded.prepared import TOKEN_ARTIFACT
from workshop.localnet.evm import CHAIN_ID
from workshop.localnet.evm.chain import LocalChain
from workshop.localnet.evm.database import Database
from workshop.localnet.evm.methods import METHODS
from workshop.localnet.evm.node import Node
from workshop.localnet.jsonrpc.protocol import Protocol

FAUCET = Account.from_key("0x" + "11" * 32)
STRANGER = "0x" + "22" * 20
GENESIS_S = 1_800_000_000
GWEI = 10**9


class Chain:
    """The node and one account with ether, whose nonces the tests choose."""

    def __init__(self, path: Path) -> None:
        self.now_s = float(GENESIS_S)
        self.database = Database(path / "chain.sqlite3")
        faucet = to_canonical_address(FAUCET.address)
        chain = LocalChain(self.database, faucet=faucet, now_s=GENESIS_S)
        self.node = Node(chain, clock=lambda: self.now_s)
        self.protocol = Protocol(self.node, METHODS)

    def ask(self, body: Any) -> Any:
        """Send a body and return the answer's JSON; None for no answer."""
        text = self.protocol.answer(body if isinstance(body, bytes) else json.dumps(body).encode())
        return json.loads(text) if text else None

    def rpc(self, method: str, *params: Any) -> Any:
        """Return the result of a method, or its error object."""
        body = self.ask({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
        assert body["id"] == 7
        return body["result"] if "result" in body else body["error"]

    def send(self, nonce: int, **fields: Any) -> Any:
        """Send a transaction of the faucet and return its hash or the error's message."""
        result = self.rpc("eth_sendRawTransaction", raw(nonce, **fields))
        return result["message"] if isinstance(result, dict) else result

    def mine(self, seconds: float = 1) -> int:
        """Let time pass and make a block."""
        self.now_s += seconds
        return int(self.rpc("evm_mine"), 16)

    def deploy_token(self, nonce: int = 0) -> str:
        """Deploy a test token of the faucet's and return its address."""
        artifact = json.loads(TOKEN_ARTIFACT.read_text())
        arguments = encode(["string", "string", "uint8"], ["Test", "TST", 6])
        sent = self.send(nonce, to=None, gas=3_000_000,
                         data=bytes.fromhex(artifact["bytecode"][2:]) + arguments)  # fmt: skip
        self.mine()
        address: str = self.rpc("eth_getTransactionReceipt", sent)["contractAddress"]
        return address


def raw(nonce: int, **fields: Any) -> str:
    """Return a signed transfer of one wei by the faucet, or what `fields` make of it."""
    transaction = {
        "chainId": CHAIN_ID, "nonce": nonce, "to": STRANGER, "value": 1, "gas": 21_000,
        "maxFeePerGas": 10 * GWEI, "maxPriorityFeePerGas": GWEI, "type": 2,
    } | fields  # fmt: skip
    if "data" in fields:
        transaction["value"] = 0
    if transaction["to"] is None:
        del transaction["to"]
    signed = FAUCET.sign_transaction(transaction)
    return f"0x{signed.raw_transaction.hex()}"


def calldata(signature: str, *arguments: Any) -> bytes:
    """Encode a contract call."""
    types = signature[signature.index("(") + 1 : -1].split(",")
    return bytes(keccak(text=signature)[:4] + encode(types, arguments))

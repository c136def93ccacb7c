"""The EVM chain of a run: what its events and balances say."""

import os
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from eth_abi.abi import decode
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from foundation.kernel.assets import Asset
from payments.models import Relayer
from tests.crash.localnets import Asking, Deposited, Paid
from tests.support.evm_escrow import call
from workshop.localnet import evm_server, rpc

SEND, RECEIPT, LOGS = "eth_sendRawTransaction", "eth_getTransactionReceipt", "eth_getLogs"
COUNT, BLOCK, CALL = "eth_getTransactionCount", "eth_getBlockByNumber", "eth_call"
CHAIN_ID = 31_337
_PAID = "0x" + keccak(text="Paid(bytes32,address,address,uint256)").hex()
_DEPOSITED = "0x" + keccak(text="Deposited(address,address,string,uint256)").hex()
_ANSWER_S = 30
# The node returns 10,000 events at most.
_RANGE = 100


def evm_rpc(method: str, *parameters: Any) -> Any:
    """Ask the node of the run, with nothing of ours in between."""
    return rpc.request(settings.CHAINS[EvmLocalnet.caip2].rpc_urls[0], method, *parameters, timeout_s=_ANSWER_S)


class EvmLocalnet:
    """The embedded EVM node, which pays in USDC here."""

    alias = "evm-localnet"
    caip2 = f"eip155:{CHAIN_ID}"
    assets = (Asset.USDC,)
    server = evm_server
    asking = Asking(send=(SEND,), seek=(RECEIPT,), prove=(CALL,), observe=(COUNT,), deposits=(LOGS,))

    def __init__(self) -> None:
        served = settings.CHAINS[self.caip2]
        self.escrow: str = served.escrow
        self._tokens: dict[Asset, str] = served.tokens
        self._assets = {token.lower(): asset for asset, token in served.tokens.items()}

    def ask(self, method: str, *parameters: Any) -> Any:
        return evm_rpc(method, *parameters)

    def token(self, asset: Asset) -> str:
        return self._tokens[asset]

    def read_offer(self, call: dict[str, Any]) -> tuple[str, bytes]:
        raw = bytes.fromhex(call["params"][0].removeprefix("0x"))
        return "0x" + keccak(raw).hex(), raw

    def new_recipients(self, asset: Asset) -> list[str]:
        return [str(to_checksum_address(os.urandom(20))) for _ in range(2)]

    def count_newest(self) -> int:
        return len(self.ask("eth_getBlockByNumber", "latest", False)["transactions"])

    def reorganise(self, depth: int, *, keeps_transactions: bool) -> None:
        self.ask("anvil_reorg", depth, [], keeps_transactions)

    def find_paid(self) -> list[Paid]:
        return [
            Paid(
                escrow_id=log["topics"][1],
                tx=log["transactionHash"],
                asset=self._assets.get(_address(log["topics"][2]).lower()),
                recipient=_address(log["topics"][3]),
                units=int(log["data"], 16),
            )
            for log in self._events(_PAID)
        ]

    def find_deposited(self) -> list[Deposited]:
        found = []
        for log in self._events(_DEPOSITED):
            agent, units = decode(["string", "uint256"], bytes.fromhex(log["data"][2:]))
            asset = self._assets.get(_address(log["topics"][2]).lower())
            found.append(Deposited(log["transactionHash"], int(log["logIndex"], 16), agent, asset, units))
        return found

    def held(self, asset: Asset) -> int:
        return self.balance_of(self.escrow, asset)

    def balance_of(self, owner: str, asset: Asset) -> int:
        question = {"to": self.token(asset), "data": call("balanceOf(address)", owner)}
        return int(self.ask("eth_call", question, "latest"), 16)

    def find_gaps(self) -> Iterator[str]:
        for relayer in Relayer.objects.filter(chain=self.caip2):
            mined = self.count_nonces(relayer.address, "latest")
            if mined != relayer.next_nonce:
                yield f"{relayer}: {relayer.next_nonce} nonces were given out, the chain has {mined}."

    def has_come_to_rest(self) -> bool:
        relayers = Relayer.objects.filter(chain=self.caip2)
        return all(self.count_nonces(one.address, "finalized") == one.next_nonce for one in relayers)

    def count_nonces(self, address: str, block: str) -> int:
        return int(self.ask("eth_getTransactionCount", address, block), 16)

    def _events(self, topic: str) -> Iterator[dict[str, Any]]:
        last = int(self.ask("eth_blockNumber"), 16)
        for first in range(0, last + 1, _RANGE):
            wanted = {"address": self.escrow, "topics": [topic], "fromBlock": hex(first)}
            yield from self.ask("eth_getLogs", {**wanted, "toBlock": hex(first + _RANGE - 1)})


def _address(word: str) -> str:
    return str(to_checksum_address(word[-40:]))

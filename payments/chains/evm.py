"""The EVM adapter: payments through the escrow contract. The only module that imports web3.

Source: design.md, "Settlement"; facts.md, "Settlement on EVM".
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from coincurve import PrivateKey
from eth_account import Account
from eth_account.hdaccount import key_from_seed
from requests import RequestException
from web3 import HTTPProvider, Web3
from web3.exceptions import Web3Exception, Web3RPCError

from allowance.kernel.money import to_base_units
from payments.chains.base import (
    ChainUnavailable,
    Finality,
    Inclusion,
    Order,
    SignedTransaction,
    TransactionRefused,
    Turn,
)
from payments.chains.escrow_calls import authorization_digest, pay_call, payment_words, settled_call
from payments.chains.evm_transactions import Fees, sign_call
from policy.signer import PolicySigner
from services.chains import ServedChain

log = logging.getLogger(__name__)

# `pay` measures 75,000 to 135,000 gas on the test token; real tokens are proxies and blocklists around the same work.
GAS_LIMIT = 300_000
# A node that has not answered by then is treated as away.
RPC_TIMEOUT_S = 5
# After this much chain time the escrow refuses the payment, and absence becomes proof of failure.
VALIDITY = timedelta(hours=1)
_WITHOUT_TRANSACTIONS = False
_TRANSFER = Web3.keccak(text="Transfer(address,address,uint256)").to_0x_hex()
# How the common nodes say "I have this one already".
_ALREADY_THERE = ("already known", "already imported", "known transaction", "nonce too low")


class EvmChain:
    """One EVM chain with its escrow. See `ChainAdapter` for the contract of each method."""

    def __init__(self, served: ServedChain, relayer_seed: bytes) -> None:
        self._chain_id = served.chain.chain_id
        self._escrow = served.escrow
        self._escrow_bytes = bytes.fromhex(served.escrow.removeprefix("0x"))
        self._tokens = served.tokens
        self._seed = relayer_seed
        self._nodes = [
            Web3(HTTPProvider(url, {"timeout": RPC_TIMEOUT_S}, exception_retry_configuration=None))
            for url in served.rpc_urls
        ]

    def prepare(
        self, order: Order, turn: Turn, state: Mapping[str, Any], now: datetime, signer: PolicySigner
    ) -> SignedTransaction:
        token = self._tokens.get(order.asset)
        if token is None:
            raise ChainUnavailable(f"{order.asset} is not served on this chain.")
        valid_until = now + VALIDITY
        deadline = int(valid_until.timestamp())
        payment = payment_words(
            order.payment_id, token, order.recipient, to_base_units(order.amount, order.asset), deadline
        )
        key, address = _derive_account(self._seed, turn.relayer_number)
        if address != turn.relayer_address:
            # Another seed than it was registered with: its nonces are another account's.
            raise ChainUnavailable("The relayer's key is not the one that it was registered with.")
        authorization = signer.authorize(authorization_digest(self._chain_id, self._escrow, payment))
        tx, raw = sign_call(
            key,
            chain_id=self._chain_id,
            nonce=turn.nonce,
            to=self._escrow_bytes,
            data=pay_call(payment, authorization),
            fees=Fees(GAS_LIMIT, state["maxFeePerGas"], state["maxPriorityFeePerGas"]),
        )
        return SignedTransaction(tx=tx, raw=raw, valid_until=datetime.fromtimestamp(deadline, UTC))

    def observe(self) -> dict[str, Any]:
        tip = int(self._read("eth_maxPriorityFeePerGas"), 16)
        block = self._block("latest")
        # Room for the base fee to double: six full blocks in a row.
        return {
            "height": int(block["number"], 16),
            "maxPriorityFeePerGas": tip,
            "maxFeePerGas": 2 * int(block["baseFeePerGas"], 16) + tip,
        }

    def send(self, raw: bytes) -> None:
        try:
            self._ask("eth_sendRawTransaction", "0x" + raw.hex())
        except Web3RPCError as error:
            # "Nonce too low" can mean that this very transaction is mined; confirmation will tell.
            if not any(phrase in str(error).lower() for phrase in _ALREADY_THERE):
                raise TransactionRefused(str(error)) from error

    def find_finality(self) -> Finality:
        block = self._block("finalized")
        return Finality(int(block["number"], 16), datetime.fromtimestamp(int(block["timestamp"], 16), UTC))

    def find_inclusions(self, expected: Sequence[tuple[str, Order]], finality: Finality) -> dict[str, Inclusion]:
        found = {}
        final_hashes: dict[str, str] = {}
        for tx, order in expected:
            receipt = self._read("eth_getTransactionReceipt", tx)
            if receipt is not None:
                number = receipt["blockNumber"]
                is_final = int(number, 16) <= finality.block_number
                if is_final and number not in final_hashes:
                    final_hashes[number] = self._block(number)["hash"]
                found[tx] = Inclusion(
                    block_number=int(number, 16),
                    # A node that lost its way has receipts of blocks that are not on the chain.
                    is_final=is_final and receipt["blockHash"] == final_hashes[number],
                    failure=None if self._paid(receipt, order) else self._explain(receipt, order),
                )
        return found

    def proves_absence(self, order: Order, finality: Finality) -> bool:
        # Not by the missing receipt, which a node that lags behind does not have either: by the escrow's own word in
        # the final block, which such a node cannot give.
        call = {"to": self._escrow, "data": "0x" + settled_call(order.payment_id).hex()}
        try:
            return int(self._ask("eth_call", call, hex(finality.block_number)), 16) == 0
        except Web3RPCError:
            return False

    def relayer_address(self, number: int) -> str:
        return _derive_account(self._seed, number)[1]

    def relayer_nonce(self, number: int) -> int:
        return int(self._read("eth_getTransactionCount", self.relayer_address(number), "latest"), 16)

    def _paid(self, receipt: Mapping[str, Any], order: Order) -> bool:
        """Believe the token's own log, not a return value: some tokens have none."""
        units = to_base_units(order.amount, order.asset)
        expected = (
            self._tokens[order.asset].lower(),
            [_TRANSFER, _topic(self._escrow), _topic(order.recipient)],
            units,
        )
        return receipt["status"] == "0x1" and any(
            (log["address"].lower(), log["topics"], int(log["data"], 16)) == expected
            for log in receipt["logs"]
            if len(log["data"]) == len(_topic(""))
        )

    def _explain(self, receipt: Mapping[str, Any], order: Order) -> str:
        if receipt["status"] == "0x1":
            return f"The transaction succeeded without paying {order.amount} {order.asset} to {order.recipient}."
        transaction = self._read("eth_getTransactionByHash", receipt["transactionHash"])
        if transaction is None:
            return "Reverted."
        call = {"from": transaction["from"], "to": transaction["to"], "data": transaction["input"]}
        try:
            # Asked again in the block before: the same call fails for the same reason.
            self._ask("eth_call", call, hex(int(receipt["blockNumber"], 16) - 1))
        except Web3RPCError as error:
            return f"Reverted: {(error.rpc_response or {}).get('error', {}).get('message', error)}"[:500]
        return "Reverted."

    def _block(self, number: str) -> Mapping[str, Any]:
        """Read a block by number or tag. Raises `ChainUnavailable`, also if the node does not have it."""
        block: Mapping[str, Any] | None = self._read("eth_getBlockByNumber", number, _WITHOUT_TRANSACTIONS)
        if block is None:
            raise ChainUnavailable(f"The node does not have the block {number}.")
        return block

    def _read(self, method: str, *params: Any) -> Any:
        """Ask the first node that answers without an error: to a read, an error is the node's own trouble.

        Raises:
            ChainUnavailable: no node did.
        """
        for node in self._nodes:
            try:
                return self._ask(method, *params, nodes=[node])
            except (ChainUnavailable, Web3RPCError) as error:
                log.warning("A node does not answer %s: %s", method, error)
        raise ChainUnavailable(f"No node answered {method}.")

    def _ask(self, method: str, *params: Any, nodes: Sequence[Web3] = ()) -> Any:
        """Ask the first node that answers, of all nodes if none are named.

        Raises:
            ChainUnavailable: no node answered.
            Web3RPCError: a node answered with an error.
        """
        for node in nodes or self._nodes:
            try:
                response = node.provider.make_request(method, list(params))  # type: ignore[arg-type]
            except (RequestException, Web3Exception, ValueError):
                continue
            if "error" in response:
                raise Web3RPCError(str(response["error"]), rpc_response=response)
            return response["result"]
        raise ChainUnavailable(f"No node answered {method}.")


@lru_cache(maxsize=256)
def _derive_account(seed: bytes, number: int) -> tuple[PrivateKey, str]:
    """Derive a relayer's key and address by BIP-32 (path of BIP-44); takes milliseconds, so once per process."""
    secret = key_from_seed(seed, f"m/44'/60'/0'/0/{number}")
    return PrivateKey(secret), str(Account.from_key(secret).address)


def _topic(address: str) -> str:
    return "0x" + address.lower().removeprefix("0x").rjust(64, "0")

"""Submit transactions of an account that is not a relayer, one after the other, and wait for each."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from chains.evm.adapter import EvmChain
from chains.evm.answers import Receipt, read_count, read_number, read_receipt
from chains.evm.configuration_check import find_wrong_chain_nodes
from chains.evm.contract_errors import read_revert
from chains.evm.derivation import address_of
from chains.evm.eip1559 import Fees, sign_call
from chains.evm.fees import to_coins
from chains.evm.inspection import read_chain_ids
from chains.evm.secp256k1 import SigningKey
from chains.port import ChainUnavailable
from chains.rpc.transport import RpcError
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import format_amount

_PAUSE_S = 1
_PATIENCE_S = 600
# A node that knows a nonce to be used may have the receipt a moment later; another one at the same address, much later.
_LOOKS_FOR_RECEIPT = 15


class Sender:
    """An account on one chain, whose key is stored nowhere. `report` gets progress messages, never a secret."""

    def __init__(self, chain: EvmChain, key: bytes, report: Callable[[str], None]) -> None:
        self._chain = chain
        self._key = SigningKey(key)
        self._report = report
        self.address = address_of(key)

    def check_chain(self) -> None:
        """Refuse to sign anything unless every node that answers belongs to the right chain.

        Raises `OperationRefused`; `ChainUnavailable` if none answers.
        """
        chain_ids = read_chain_ids(self._chain.inspector.singles)
        if wrong_nodes := find_wrong_chain_nodes(chain_ids, self._chain.served.chain.chain_id):
            raise OperationRefused(" ".join(wrong_nodes))
        if not any(chain_ids):
            raise ChainUnavailable("No node answers.")

    def next_nonce(self) -> int:
        """Read the nonce that follows all pending transactions."""
        return self._chain.nodes.read(
            [("eth_getTransactionCount", self.address, "pending")], lambda answers: read_count(answers[0])
        )

    def send(self, to: bytes, data: bytes, nonce: int) -> Receipt:
        """Sign a transaction, submit it until a block includes it, and check that it succeeded. No `to`: a creation.

        Raises:
            OperationRefused: the account has too little, nodes refuse it, it reverted, or no block includes it yet.
            ChainUnavailable: no node answered before it was sent.
        """
        call = {"data": "0x" + data.hex()} | ({"to": "0x" + to.hex()} if to else {})
        return self._finish(*self._submit(to, data, nonce, self._price(call)))

    def transfer(self, amounts: Mapping[str, int]) -> dict[str, str]:
        """Send coins (wei, by address), and wait for all; returns the transactions' ids by address.

        Raises:
            OperationRefused, ChainUnavailable: as `send` does; of several, some may have landed.
        """
        fees = self._price({"to": next(iter(amounts))}, values=list(amounts.values()))
        first, sent = self.next_nonce(), []
        for number, (address, wei) in enumerate(amounts.items()):
            sent.append(self._submit(bytes.fromhex(address.removeprefix("0x")), b"", first + number, fees, value=wei))
        return {address: self._finish(*one).tx for address, one in zip(amounts, sent, strict=True)}

    def _submit(self, to: bytes, data: bytes, nonce: int, fees: Fees, *, value: int = 0) -> tuple[str, bytes, int]:
        chain = self._chain.served.chain
        tx, raw = sign_call(self._key, chain_id=chain.chain_id, nonce=nonce, to=to, data=data, fees=fees, value=value)
        (refusal,) = self._chain.broadcaster.send([raw])
        if refusal is not None:
            raise OperationRefused(f"The nodes refuse the transaction: {refusal}")
        self._report(f"Sent {tx} {chain.link_to(tx)}".rstrip())
        return tx, raw, nonce

    def _finish(self, tx: str, raw: bytes, nonce: int) -> Receipt:
        receipt = self._wait(tx, raw, nonce)
        if not receipt.has_succeeded:
            raise OperationRefused(f"{tx} reverted in block {receipt.block_number}.")
        self._report(f"It is in block {receipt.block_number}.")
        return receipt

    def _mined_nonce(self) -> int:
        return self._chain.nodes.read(
            [("eth_getTransactionCount", self.address, "latest")], lambda answers: read_count(answers[0])
        )

    def _price(self, call: Mapping[str, str], *, values: Sequence[int] = (0,)) -> Fees:
        """Choose the fees as the watcher does, with a fifth more gas than estimated, for a call with each of `values`.

        Check that the account can pay for all of them.
        """
        state = self._chain.observer.observe()
        estimate, balance = self._chain.nodes.ask(
            [("eth_estimateGas", {"from": self.address, **call}), ("eth_getBalance", self.address, "latest")]
        )
        if isinstance(estimate, RpcError):
            raise OperationRefused(read_revert(estimate.data, str(estimate)))
        gas = read_count(estimate) * 6 // 5
        needed, there = len(values) * gas * state["maxFeePerGas"] + sum(values), read_number(balance)
        if there < needed:
            has, wants = (format_amount(to_coins(wei)) for wei in (there, needed))
            raise OperationRefused(f"{self.address} has {has} of the chain's coin, and may need {wants}.")
        return Fees(gas, state["maxFeePerGas"], state["maxPriorityFeePerGas"])

    def _wait(self, tx: str, raw: bytes, nonce: int) -> Receipt:
        in_vain = 0
        for _ in attempts():
            try:
                # The nonce is read first: once it is used, a missing transaction can never be included.
                in_vain = in_vain + 1 if self._mined_nonce() > nonce else 0
                receipt = self._chain.nodes.read(
                    [("eth_getTransactionReceipt", tx)], lambda answers: read_receipt(tx)(answers[0])
                )
                if receipt is not None:
                    return receipt
                if in_vain == _LOOKS_FOR_RECEIPT:
                    raise OperationRefused(f"Another transaction of {self.address} took the place of {tx}. Try again.")
                self._report("Waiting for a block ...")
                self._chain.broadcaster.send([raw])
            except ChainUnavailable as error:
                self._report(str(error))
        raise OperationRefused(f"{tx} is in no block yet and may still get into one: look for it before another try.")


def attempts() -> Iterator[None]:
    """Pace repeated reads of a chain, for as long as a block may take to include a transaction."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        yield
        time.sleep(_PAUSE_S)

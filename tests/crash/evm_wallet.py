"""Who deposits on the EVM chain: the deployer of the contracts, which mints, approves and deposits."""

from typing import Any

from eth_account import Account

from foundation.kernel.assets import Asset
from tests.crash.evm_localnet import CHAIN_ID, SEND, EvmLocalnet
from tests.support.evm_escrow import call
from workshop.localnet.errors import LocalnetError

_GAS = 250_000
_GWEI = 10**9
_PLENTY = 10**15


class EvmWallet:
    """Its transactions have nonces in a row: what is final is told by their number."""

    def __init__(self, localnet: EvmLocalnet, key: str) -> None:
        self._localnet = localnet
        self._account = Account.from_key(key)
        self._sent: list[str] = []
        self._first_nonce = localnet.count_nonces(self._account.address, "latest")
        for asset in localnet.assets:
            self._send(localnet.token(asset), "mint(address,uint256)", self._account.address, _PLENTY)
            self._send(localnet.token(asset), "approve(address,uint256)", localnet.escrow, _PLENTY)

    def deposit(self, agent: str, asset: Asset, units: int) -> None:
        token = self._localnet.token(asset)
        self._send(self._localnet.escrow, "deposit(string,address,uint256)", agent, token, units)

    def insist(self) -> bool:
        missing = self._not_final()
        for raw in missing:
            self._offer(raw)
        return not missing

    def _not_final(self) -> list[str]:
        """Find what is not in a final block; all if the node is away."""
        try:
            final = self._localnet.count_nonces(self._account.address, "finalized")
        except (OSError, LocalnetError):
            return list(self._sent)
        return self._sent[max(0, final - self._first_nonce) :]

    def _send(self, to: str, signature: str, *arguments: Any) -> None:
        signed = self._account.sign_transaction(
            {
                "chainId": CHAIN_ID,
                "nonce": self._first_nonce + len(self._sent),
                "gas": _GAS,
                "maxFeePerGas": 1000 * _GWEI,
                "maxPriorityFeePerGas": _GWEI,
                "to": to,
                "data": call(signature, *arguments),
            }
        )
        self._sent.append("0x" + signed.raw_transaction.hex())
        self._offer(self._sent[-1])

    def _offer(self, raw: str) -> None:
        # Known already, or the node is away: it is offered again until it is final.
        try:
            self._localnet.ask(SEND, raw)
        except (OSError, LocalnetError):
            return

"""Prepare the local EVM chain for payments: tokens, escrow, relayers with gas.

Deployments come first, in a fixed order, so that addresses follow from nonces. Everything else is
compared with the chain and corrected where it differs: a run that was killed half way is finished
by the next, and another RELAYER_SEED in the environment becomes effective.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from eth_abi.abi import decode, encode
from eth_account import Account as EthAccount
from eth_account.hdaccount import key_from_seed
from eth_account.signers.local import LocalAccount
from eth_utils.crypto import keccak

from workshop.embedded.artifacts import creation_data, is_code_of, read_artifact
from workshop.embedded.keys import TOKENS, keys_of
from workshop.embedded.prepared import ESCROW_ARTIFACT, TOKEN_ARTIFACT
from workshop.localnet import rpc
from workshop.localnet.errors import LocalnetError
from workshop.localnet.evm import CHAIN_ID
from workshop.localnet.folder import Folder

RELAYER_COUNT = 16
_TOKEN_NAMES = {"USDC": "USD Coin", "USDT": "Tether USD", "PYUSD": "PayPal USD", "EURC": "EURC"}
_DECIMALS = 6
_ESCROW_FUNDS_ATOMIC = 1_000_000 * 10**_DECIMALS
# What the deployer, as a customer, can deposit.
_WALLET_FUNDS_ATOMIC = 1_000_000 * 10**_DECIMALS
_DAILY_CAP_ATOMIC = 1_000_000_000 * 10**_DECIMALS
_RELAYER_WEI = 1_000 * 10**18
_RELAYER_MINIMUM_WEI = 10 * 10**18
_CONSTRUCTOR_RELAYERS = 64  # the escrow's constructor takes no more
_DEPLOY_GAS = 8_000_000
_CALL_GAS = 250_000
_TIP_WEI = 10**9
_MAX_FEE_WEI = 10**12


@dataclass(frozen=True)
class Step:
    """A transaction of the deployer. No `to`: it creates a contract."""

    data: bytes = b""
    to: str | None = None
    value_wei: int = 0


@dataclass(frozen=True)
class EvmSetup:
    """The state that the chain should have."""

    deployer: LocalAccount
    policy_signer: str
    relayers: tuple[str, ...]
    escrow: str
    tokens: dict[str, str]

    @classmethod
    def of(cls, folder: Folder) -> "EvmSetup":
        """Return what an installation wants; keys in the environment go before its own."""
        keys = keys_of(folder)
        wanted = keys | {name: os.environ[name] for name in keys if os.environ.get(name)}
        count = int(os.environ.get("RELAYERS_PER_CHAIN") or RELAYER_COUNT)
        seed = bytes.fromhex(wanted["RELAYER_SEED"].removeprefix("0x"))
        return cls(
            deployer=EthAccount.from_key(keys["EVM_DEPLOYER_KEY"]),
            policy_signer=EthAccount.from_key(wanted["POLICY_SIGNER_SECP256K1_KEY"]).address,
            relayers=tuple(_relayer(seed, index) for index in range(count)),
            escrow=keys["EVM_ESCROW"],
            tokens=dict(pair.split("=") for pair in keys["EVM_TOKENS"].split(",")),
        )

    def ensure(self, url: str, progress: Callable[[str], None]) -> None:
        """Correct what differs. Returns when it is on the chain. Raises `LocalnetError`."""
        deployed = int(rpc.request(url, "eth_getTransactionCount", self.deployer.address, "latest"), 16)
        missing = self._deployments()[deployed:]
        if missing:
            progress("deploying tokens and escrow, funding relayers")
            self._send(url, missing, _DEPLOY_GAS)
        self._refuse_outdated(url)
        self._send(url, list(self._differences(url)), _CALL_GAS)

    def _deployments(self) -> list[Step]:
        token, escrow = read_artifact(TOKEN_ARTIFACT), read_artifact(ESCROW_ARTIFACT)
        steps = [Step(creation_data(token, _TOKEN_NAMES[symbol], symbol, _DECIMALS)) for symbol in TOKENS]
        first = self.relayers[:_CONSTRUCTOR_RELAYERS]
        creation = creation_data(escrow, self.deployer.address, self.policy_signer, first)
        return [*steps, Step(creation)]

    def _differences(self, url: str) -> Iterator[Step]:
        for token in self.tokens.values():
            if not _read(url, token, "totalSupply()"):
                yield _call(token, "mint(address,uint256)", self.escrow, _ESCROW_FUNDS_ATOMIC)
            if not _read(url, token, "allowance(address,address)", self.deployer.address, self.escrow):
                yield _call(token, "mint(address,uint256)", self.deployer.address, _WALLET_FUNDS_ATOMIC)
                yield _call(token, "approve(address,uint256)", self.escrow, 2**256 - 1)
            if not _read(url, self.escrow, "dailyCap(address)", token):
                yield _call(self.escrow, "setDailyCap(address,uint256)", token, _DAILY_CAP_ATOMIC)
        if _read(url, self.escrow, "policySigner()") != int(self.policy_signer, 16):
            yield _call(self.escrow, "setPolicySigner(address)", self.policy_signer)
        for relayer in self.relayers:
            if not _read(url, self.escrow, "relayers(address)", relayer):
                yield _call(self.escrow, "setRelayer(address,bool)", relayer, True)  # noqa: FBT003 - ABI
            if int(rpc.request(url, "eth_getBalance", relayer, "latest"), 16) < _RELAYER_MINIMUM_WEI:
                yield Step(to=relayer, value_wei=_RELAYER_WEI)

    def _refuse_outdated(self, url: str) -> None:
        code = rpc.request(url, "eth_getCode", self.escrow, "latest")
        if code == "0x":
            raise LocalnetError(
                f"there is no escrow at {self.escrow}: stop everything, run `make clean`, which deletes the local "
                "data, and start again"
            )
        if not is_code_of(bytes.fromhex(code[2:]), read_artifact(ESCROW_ARTIFACT)):
            raise LocalnetError(
                "the escrow on the local chain is of an earlier version of chains/contracts: stop everything, run "
                "`make clean`, which deletes the local data, and start again"
            )

    def _send(self, url: str, steps: list[Step], gas: int) -> None:
        """Send the steps in order, all into one block, and check that each succeeded."""
        nonce = int(rpc.request(url, "eth_getTransactionCount", self.deployer.address, "latest"), 16)
        hashes = [
            rpc.request(url, "eth_sendRawTransaction", self._signed(step, nonce + index, gas))
            for index, step in enumerate(steps)
        ]
        for transaction_hash in hashes:
            receipt = rpc.request(url, "eth_getTransactionReceipt", transaction_hash)
            while receipt is None:
                rpc.request(url, "evm_mine")
                receipt = rpc.request(url, "eth_getTransactionReceipt", transaction_hash)
            if receipt["status"] != "0x1":
                raise LocalnetError(f"the transaction {transaction_hash} failed on the local chain")

    def _signed(self, step: Step, nonce: int, gas: int) -> str:
        transaction: dict[str, Any] = {
            "chainId": CHAIN_ID,
            "nonce": nonce,
            "gas": gas,
            "maxFeePerGas": _MAX_FEE_WEI,
            "maxPriorityFeePerGas": _TIP_WEI,
            "value": step.value_wei,
            "data": step.data,
        }
        if step.to is not None:
            transaction["to"] = step.to
        return f"0x{self.deployer.sign_transaction(transaction).raw_transaction.hex()}"


def _relayer(seed: bytes, index: int) -> str:
    key = key_from_seed(seed, f"m/44'/60'/0'/0/{index}")
    return str(EthAccount.from_key(key).address)


def _call(to: str, signature: str, *arguments: Any) -> Step:
    types = [one for one in signature[signature.index("(") + 1 : -1].split(",") if one]
    return Step(keccak(text=signature)[:4] + encode(types, arguments), to)


def _read(url: str, to: str, signature: str, *arguments: Any) -> int:
    data = f"0x{_call(to, signature, *arguments).data.hex()}"
    answer = rpc.request(url, "eth_call", {"to": to, "data": data}, "latest")
    return int(decode(["uint256"], bytes.fromhex(answer[2:]))[0])

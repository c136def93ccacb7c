"""An escrow contract with tokens of its own on any EVM node."""

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from functools import cached_property, partial
from typing import Any

from django.conf import settings
from eth_abi.abi import encode
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils.address import to_checksum_address

from chains.catalogue import Chain, ServedChain, Vm
from chains.evm.adapter import EvmChain
from chains.evm.preparing import GAS_LIMIT
from chains.port import MadeDeposit, NonceFate, PaymentFate, Submitter
from foundation.kernel.assets import Asset
from policy.signer import LocalSigner
from tests.chains.adapter.deployment import FUNDS_UNITS, Deployment
from tests.support.evm_escrow import call
from tests.support.factories import new_address

DEPTH = 2
CAP_UNITS = 10**15
_ESCROW = json.loads((settings.BASE_DIR / "chains/contracts/escrow.json").read_text())
_TOKEN = json.loads((settings.BASE_DIR / "workshop/embedded/contracts/test_token.json").read_text())
_DEPLOY_GAS = 8_000_000
_CALL_GAS = 300_000
MOST_IN_LINE = 16
_RELAYERS = 60


class EvmDeployment(Deployment):
    """The last relayers are unknown to the escrow."""

    assets = (Asset.USDC, Asset.EURC)
    untouched = (PaymentFate.UNPAID, NonceFate.UNUSED)
    mines_by = "evm_mine"

    def __init__(self, url: str, funded_key: str) -> None:
        self._policy_signer: LocalAccount = Account.create()
        super().__init__(url, LocalSigner(os.urandom(32), bytes(self._policy_signer.key)))
        self._funder: LocalAccount = Account.from_key(funded_key)
        self.owner: LocalAccount = Account.create()
        self._seed = os.urandom(64)
        self._numbers = iter(range(_RELAYERS))
        self._strangers = itertools.count(_RELAYERS)
        self._transact(self._funder, [(self.owner.address, "0x", self._cost_wei() * 2_000)])
        self.tokens = {asset: self._deploy_token(asset) for asset in self.assets}
        self.unserved_token = self._deploy_token(Asset.PYUSD)
        self.escrow = self._deploy(_ESCROW, self.owner.address, self._policy_signer.address, self._first_relayers)
        self.as_owner(
            *((token, call("mint(address,uint256)", self.escrow, FUNDS_UNITS)) for token in self.tokens.values()),
            *((self.escrow, self._cap(asset, CAP_UNITS)) for asset in self.tokens),
        )

    # --- The node -----------------------------------------------------------------------------------------------------
    @property
    def owner_address(self) -> str:
        return str(self.owner.address)

    def number(self, method: str, *params: Any) -> int:
        return int(self.rpc(method, *params), 16)

    @property
    def height(self) -> int:
        return self.number("eth_blockNumber")

    def mine(self) -> None:
        super().mine()
        # Anvil has the fees of a block a moment after the block: nobody is to observe it in between.
        self.wait(self._has_newest_fees, mining=False)

    def _has_newest_fees(self) -> bool | None:
        height = self.height
        history = self.rpc("eth_feeHistory", "0x1", hex(height), [])
        return int(history["oldestBlock"], 16) + len(history["gasUsedRatio"]) - 1 == height or None

    def block(self, block: int | str) -> Any:
        """Read a block by number or tag; None if the node does not have it."""
        return self._post("eth_getBlockByNumber", hex(block) if isinstance(block, int) else block, False).get("result")

    @cached_property
    def keeps_gaps(self) -> bool:
        """Tell whether the node keeps a transaction whose turn has not come; one that does not refuses it for now."""
        (submitter,) = self.relayers()
        return self.adapter().broadcaster.send([self.pay(replace(submitter, nonce=1)).raw]) == [None]

    # --- The contracts ------------------------------------------------------------------------------------------------
    @cached_property
    def chain_id(self) -> int:
        return self.number("eth_chainId")

    def adapter(self, depth: int | None = DEPTH, most_together: int = 1, **options: Any) -> EvmChain:
        chain = Chain(f"eip155:{self.chain_id}", ("test",), Vm.EVM)
        bounds: dict[str, Any] = {"finality_depth": depth, "most_together": most_together}
        return EvmChain.of(ServedChain(chain, (self.url,), self.escrow, self.tokens, **bounds), self._seed, **options)

    def balance_of(self, owner: str, asset: Asset = Asset.USDC) -> int:
        wanted = {"to": self.tokens[asset], "data": call("balanceOf(address)", owner)}
        return self.number("eth_call", wanted, "latest")

    def held(self, asset: Asset = Asset.USDC) -> int:
        return self.balance_of(self.escrow, asset)

    def gas_money(self, address: str) -> Decimal:
        return Decimal(self.number("eth_getBalance", address, "latest")).scaleb(-18)

    def lost_block(self) -> tuple[int, str]:
        return self.height, "0x" + "ab" * 32

    def as_owner(self, *calls: tuple[str, str]) -> list[Any]:
        """Make calls (to, data) as the owner of everything; returns their receipts."""
        return self._transact(self.owner, [(to, data, 0) for to, data in calls])

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.as_owner((self.escrow, call("pause()")))
        try:
            yield
        finally:
            self.as_owner((self.escrow, call("unpause()")))

    @contextmanager
    def cap(self, asset: Asset, units: int) -> Iterator[None]:
        self.as_owner((self.escrow, self._cap(asset, units)))
        try:
            yield
        finally:
            self.as_owner((self.escrow, self._cap(asset, CAP_UNITS)))

    def deposit(self, *deposits: tuple[Asset, bytes, int]) -> list[MadeDeposit]:
        return self.deposit_tokens(*((self.tokens[asset], text, units) for asset, text, units in deposits))

    def deposit_tokens(self, *deposits: tuple[str, bytes, int]) -> list[MadeDeposit]:
        """Deposit (token, text, units) in one go, served or not."""
        preparations = (
            (token, data)
            for token in dict.fromkeys(token for token, _, _ in deposits)
            for data in (
                call("mint(address,uint256)", self.owner.address, 10**12),
                call("approve(address,uint256)", self.escrow, 10**12),
            )
        )
        self.as_owner(*preparations)
        # Encoded as bytes: a caller may write anything where a text is meant.
        selector = call("deposit(string,address,uint256)", "", self.owner.address, 0)[:10]
        types = ["bytes", "address", "uint256"]
        receipts = self.as_owner(
            *((self.escrow, selector + encode(types, [text, token, units]).hex()) for token, text, units in deposits)
        )
        return [MadeDeposit(one["transactionHash"].lower(), int(one["blockNumber"], 16)) for one in receipts]

    def withdraw(self, units: int, asset: Asset = Asset.USDC) -> None:
        data = call("withdraw(address,address,uint256)", self.tokens[asset], self.owner.address, units)
        self.as_owner((self.escrow, data))

    @property
    def _first_relayers(self) -> list[str]:
        pool = EvmChain.of(ServedChain(Chain("eip155:1", ("test",), Vm.EVM), (), new_address(), {}), self._seed)
        return [pool.preparer.relayer_address(number) for number in range(_RELAYERS)]

    def _cap(self, asset: Asset, units: int) -> str:
        return call("setDailyCap(address,uint256)", self.tokens[asset], units)

    def _deploy_token(self, asset: Asset) -> str:
        return self._deploy(_TOKEN, "A token of tests", str(asset)[:5], 6)

    def _deploy(self, artifact: dict[str, Any], *arguments: Any) -> str:
        inputs = next(one["inputs"] for one in artifact["abi"] if one["type"] == "constructor")
        data = artifact["bytecode"] + encode([one["type"] for one in inputs], arguments).hex()
        (receipt,) = self._transact(self.owner, [(None, data, 0)], gas=_DEPLOY_GAS)
        return to_checksum_address(receipt["contractAddress"])

    def _transact(
        self, sender: LocalAccount, calls: Sequence[tuple[str | None, str, int]], gas: int = _CALL_GAS
    ) -> list[Any]:
        receipts = []
        for start in range(0, len(calls), MOST_IN_LINE):
            nonce = self.number("eth_getTransactionCount", sender.address, "latest")
            txs = [
                self.rpc("eth_sendRawTransaction", self._signed(sender, nonce + index, one, gas))
                for index, one in enumerate(calls[start : start + MOST_IN_LINE])
            ]
            receipts += [self.wait(partial(self.rpc, "eth_getTransactionReceipt", tx)) for tx in txs]
        assert all(int(receipt["status"], 16) for receipt in receipts), receipts
        return receipts

    def _signed(self, sender: LocalAccount, nonce: int, one: tuple[str | None, str, int], gas: int) -> str:
        to, data, value_wei = one
        fee, tip = self._fees_wei()
        fields: dict[str, Any] = {
            "chainId": self.chain_id,
            "nonce": nonce,
            "gas": gas,
            "value": value_wei,
            "data": data,
        }
        fields |= {"maxFeePerGas": fee, "maxPriorityFeePerGas": tip} | ({"to": to} if to else {})
        return str(sender.sign_transaction(fields).raw_transaction.to_0x_hex())

    def _fees_wei(self) -> tuple[int, int]:
        tip = self.number("eth_maxPriorityFeePerGas")
        return 4 * int(self.block("latest")["baseFeePerGas"], 16) + tip, tip

    def _cost_wei(self) -> int:
        return GAS_LIMIT * self._fees_wei()[0]

    # --- Paying -------------------------------------------------------------------------------------------------------
    def new_address(self) -> str:
        return to_checksum_address(new_address())

    def relayers(self, count: int = 1, *, known: bool = True) -> list[Submitter]:
        """Fund relayers that nobody used before; returns their first turns."""
        adapter = self.adapter()
        numbers = itertools.islice(self._numbers if known else self._strangers, count)
        turns = [Submitter(number, adapter.preparer.relayer_address(number), 0) for number in numbers]
        assert len(turns) == count
        self._transact(self.owner, [(submitter.relayer_address, "0x", self._cost_wei() * 30) for submitter in turns])
        return turns

    def turns(self, count: int) -> list[Submitter]:
        relayers = self.relayers(-(-count // MOST_IN_LINE))
        return [replace(submitter, nonce=nonce) for submitter in relayers for nonce in range(MOST_IN_LINE)][:count]

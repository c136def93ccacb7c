"""An escrow with tokens of its own on any EVM node, made and looked at by plain JSON-RPC.

Nothing here or in the tests depends on when a node makes blocks: `evm_mine` where it is known, else patience.
"""

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, TypeVar

import requests
from django.conf import settings
from eth_abi.abi import encode
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils.address import to_checksum_address

from allowance.kernel.assets import Asset
from allowance.kernel.times import utc_now
from payments.chains.base import Inclusion, Order, SignedTransaction, Sought, Turn
from payments.chains.evm.adapter import EvmChain
from payments.chains.evm.signing import GAS_LIMIT
from policy.signer import LocalSigner
from services.chains import Chain, ServedChain, Vm
from tests.chains import call
from tests.factories import new_address

T = TypeVar("T")
PATIENCE_S = 120
DEPTH = 2
FUNDS_UNITS = 1_000_000 * 10**6
CAP_UNITS = 10**15
_ESCROW = json.loads((settings.BASE_DIR / "payments/contracts/escrow.json").read_text())
_TOKEN = json.loads((settings.BASE_DIR / "allowance/embedded/contracts/test_token.json").read_text())
_DEPLOY_GAS = 8_000_000
_CALL_GAS = 300_000
_MOST_AT_ONCE = 16
_RELAYERS = 40


@dataclass(frozen=True, slots=True)
class Sent:
    """A signed transaction and what it is for."""

    signed: SignedTransaction
    turn: Turn
    order: Order | None

    @property
    def raw(self) -> bytes:
        return self.signed.raw

    @property
    def tx(self) -> str:
        return self.signed.tx

    @property
    def sought(self) -> Sought:
        return Sought(self.signed.tx, self.signed.raw, self.turn, self.order, None, "")


class Deployment:
    """Tokens, an escrow, its policy signer and relayers: all new. The last relayers are unknown to the escrow."""

    def __init__(self, url: str, funded_key: str) -> None:
        self.url = url
        self._funder: LocalAccount = Account.from_key(funded_key)
        self.owner: LocalAccount = Account.create()
        self.signer = LocalSigner(os.urandom(32), bytes(Account.create().key))
        self._seed = os.urandom(64)
        self._numbers = itertools.count()
        self._strangers = itertools.count(_RELAYERS)
        self._transact(self._funder, [(self.owner.address, "0x", self._cost_wei() * 2_000)])
        self.tokens = {asset: self._deploy_token(asset) for asset in (Asset.USDC, Asset.EURC)}
        self.unserved_token = self._deploy_token(Asset.PYUSD)
        self.escrow = self._deploy(_ESCROW, self.owner.address, self._policy_signer, self._first_relayers)
        self.as_owner(
            *((token, call("mint(address,uint256)", self.escrow, FUNDS_UNITS)) for token in self.tokens.values()),
            *((self.escrow, self._cap(asset, CAP_UNITS)) for asset in self.tokens),
        )

    # --- The node -----------------------------------------------------------------------------------------------------
    def rpc(self, method: str, *params: Any) -> Any:
        answer = self._post(method, *params)
        assert answer.get("error") is None, (method, answer)
        return answer["result"]

    def number(self, method: str, *params: Any) -> int:
        return int(self.rpc(method, *params), 16)

    @property
    def height(self) -> int:
        return self.number("eth_blockNumber")

    def block(self, block: int | str) -> Any:
        """Read a block by number or tag; None if the node does not have it."""
        return self._post("eth_getBlockByNumber", hex(block) if isinstance(block, int) else block, False).get("result")

    def mine(self) -> None:
        """Return when there is one more block than before."""
        before = self.height
        if "error" not in self._post("evm_mine"):
            return
        self.wait(lambda: self.height > before or None, mining=False)

    def wait(self, ask: Callable[[], T | None], *, mining: bool = True) -> T:
        """Ask again and again, block by block, until there is an answer."""
        deadline = time.monotonic() + PATIENCE_S
        while (answer := ask()) is None:
            assert time.monotonic() < deadline, "the node does not come to an end"
            if mining:
                self.mine()
            else:
                time.sleep(0.1)
        return answer

    @cached_property
    def keeps_gaps(self) -> bool:
        """Tell whether the node keeps a transaction whose turn has not come; one that does not refuses it for now."""
        (turn,) = self.relayers()
        return self.adapter().send([self.pay(replace(turn, nonce=1)).raw]) == [None]

    def _post(self, method: str, *params: Any) -> Any:
        body: Any = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return requests.post(self.url, json=body, timeout=30).json()

    # --- The contracts ------------------------------------------------------------------------------------------------
    @cached_property
    def chain_id(self) -> int:
        return self.number("eth_chainId")

    def adapter(self, depth: int | None = DEPTH, **options: Any) -> EvmChain:
        chain = Chain(f"eip155:{self.chain_id}", ("test",), Vm.EVM)
        return EvmChain(
            ServedChain(chain, (self.url,), self.escrow, self.tokens, finality_depth=depth), self._seed, **options
        )

    def balance_of(self, owner: str, asset: Asset = Asset.USDC) -> int:
        wanted = {"to": self.tokens[asset], "data": call("balanceOf(address)", owner)}
        return self.number("eth_call", wanted, "latest")

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

    def deposit(self, *deposits: tuple[str, bytes, int]) -> list[Any]:
        """Deposit (token, text, units) as the owner, in one go; returns the receipts."""
        tokens = list(dict.fromkeys(token for token, _, _ in deposits))
        preparations = (
            (token, data)
            for token in tokens
            for data in (
                call("mint(address,uint256)", self.owner.address, 10**12),
                call("approve(address,uint256)", self.escrow, 10**12),
            )
        )
        self.as_owner(*preparations)
        # Encoded as bytes: a caller may write anything where a text is meant.
        selector = call("deposit(string,address,uint256)", "", self.owner.address, 0)[:10]
        types = ["bytes", "address", "uint256"]
        return self.as_owner(
            *((self.escrow, selector + encode(types, [text, token, units]).hex()) for token, text, units in deposits)
        )

    @property
    def _policy_signer(self) -> str:
        key = self.signer._payments.secret
        return str(Account.from_key(key).address)

    @property
    def _first_relayers(self) -> list[str]:
        pool = EvmChain(ServedChain(Chain("eip155:1", (), Vm.EVM), (), new_address(), {}), self._seed)
        return [pool.relayer_address(number) for number in range(_RELAYERS)]

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
        for start in range(0, len(calls), _MOST_AT_ONCE):
            nonce = self.number("eth_getTransactionCount", sender.address, "latest")
            txs = [
                self.rpc("eth_sendRawTransaction", self._signed(sender, nonce + index, one, gas))
                for index, one in enumerate(calls[start : start + _MOST_AT_ONCE])
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
    def relayers(self, count: int = 1, *, known: bool = True) -> list[Turn]:
        """Fund relayers that nobody used before; returns their first turns."""
        adapter = self.adapter()
        numbers = itertools.islice(self._numbers if known else self._strangers, count)
        turns = [Turn(number, adapter.relayer_address(number), 0) for number in numbers]
        assert len(turns) == count
        self._transact(self.owner, [(turn.relayer_address, "0x", self._cost_wei() * 30) for turn in turns])
        return turns

    def pay(self, turn: Turn, amount: str = "1.50", asset: Asset = Asset.USDC, **options: Any) -> Sent:
        """Sign a payment to an address that nobody used before; it is not sent."""
        adapter = self.adapter()
        order = options.pop("order", None) or Order(
            f"pay_{os.urandom(13).hex()}", asset, Decimal(amount), to_checksum_address(new_address())
        )
        arguments: Any = {"state": adapter.observe(), "now": utc_now(), "signer": self.signer} | options
        return Sent(adapter.prepare(order, turn, **arguments), turn, order)

    def land(self, *sent: Sent) -> dict[str, Inclusion]:
        """Offer transactions until all are in final blocks; returns where, by id."""
        adapter = self.adapter()

        def look() -> dict[str, Inclusion] | None:
            found = adapter.find_inclusions([one.sought for one in sent], adapter.find_finality()).inclusions
            if len(found) == len(sent) and all(one.is_final for one in found.values()):
                return dict(found)
            if missing := [one.raw for one in sent if one.tx not in found]:
                adapter.send(missing)
            return None

        return self.wait(look)

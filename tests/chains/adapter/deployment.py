"""An escrow of tests on any node: keys and tokens of its own, looked at by plain JSON-RPC.

Nothing here or in the tests depends on when a node makes blocks: it is told to where it can be, else there is patience.
"""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, TypeVar

import requests

from chains.port import (
    ChainAdapter,
    Inclusion,
    MadeDeposit,
    Order,
    SignedTransaction,
    Submitter,
    TransactionPlan,
    TransactionQuery,
)
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from policy.signer import PolicySigner
from tests.support.fates import LoneFate, lone

T = TypeVar("T")
PATIENCE_S = 120
FUNDS_UNITS = 1_000_000 * 10**6


@dataclass(frozen=True, slots=True)
class Sent:
    """A signed transaction and what it is for: an order, and `others` if it pays a list."""

    signed: SignedTransaction
    submitter: Submitter
    order: Order | None
    others: Sequence[Order] = ()

    @property
    def raw(self) -> bytes:
        return self.signed.raw

    @property
    def tx(self) -> str:
        return self.signed.tx

    @property
    def orders(self) -> list[Order]:
        return [self.order, *self.others] if self.order else []

    @property
    def sought(self) -> TransactionQuery:
        signed = self.signed
        heights = (signed.valid_until_height, signed.valid_from_block)
        return TransactionQuery(signed.tx, signed.raw, self.submitter, self.orders, None, "", *heights)


class Deployment(ABC):
    """Tokens, an escrow that has FUNDS_UNITS of each, its policy signer and relayers: all new.

    `assets` are those that it pays with; `untouched` is what is proven of a payment that was never sent.
    """

    assets: ClassVar[Sequence[Asset]]
    untouched: ClassVar[LoneFate]
    mines_by: ClassVar[str]

    def __init__(self, url: str, signer: PolicySigner) -> None:
        self.url, self.signer = url, signer
        self.escrow = ""
        self.tokens: dict[Asset, str] = {}

    # --- What differs -------------------------------------------------------------------------------------------------
    @property
    @abstractmethod
    def height(self) -> int:
        """The number of the newest block."""

    @property
    @abstractmethod
    def owner_address(self) -> str:
        """The account of who deposits, and who owns the tokens."""

    @abstractmethod
    def adapter(self) -> ChainAdapter: ...

    @abstractmethod
    def relayers(self, count: int = 1) -> list[Submitter]:
        """Give the first turns of so many relayers, or of as many as there can be."""

    @abstractmethod
    def turns(self, count: int) -> list[Submitter]:
        """Give so many turns, to be taken in this order by payments that may all be under way at once."""

    @abstractmethod
    def new_address(self) -> str:
        """Make an address that nobody used before."""

    @abstractmethod
    def balance_of(self, owner: str, asset: Asset = Asset.USDC) -> int:
        """Read what somebody has in the newest block, in base units."""

    @abstractmethod
    def held(self, asset: Asset = Asset.USDC) -> int:
        """Read what the escrow has in the newest block, in base units."""

    @abstractmethod
    def gas_money(self, address: str) -> Decimal:
        """Read what a relayer has in the newest block, in units of the chain's own coin."""

    @abstractmethod
    def lost_block(self) -> tuple[int, str]:
        """Name a block (number, hash) that is not on the chain, and never will be."""

    @abstractmethod
    def deposit(self, *deposits: tuple[Asset, bytes, int]) -> list[MadeDeposit]:
        """Deposit (asset, text, base units) as the owner of the tokens, one after the other."""

    @abstractmethod
    def withdraw(self, units: int, asset: Asset = Asset.USDC) -> None:
        """Take money out of the escrow past the product, as whoever has all keys can."""

    # --- The node -----------------------------------------------------------------------------------------------------
    def rpc(self, method: str, *params: Any) -> Any:
        answer = self._post(method, *params)
        assert answer.get("error") is None, (method, answer)
        return answer["result"]

    def mine(self) -> None:
        """Return when there is one more block than before."""
        before = self.height
        if "error" not in self._post(self.mines_by):
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

    def wait_until_final(self, block_number: int) -> None:
        adapter = self.adapter()
        self.wait(lambda: adapter.follower.find_finality().block_number >= block_number or None)

    def _post(self, method: str, *params: Any) -> Any:
        body: Any = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return requests.post(self.url, json=body, timeout=30).json()

    # --- Paying -------------------------------------------------------------------------------------------------------
    def pay(self, submitter: Submitter, amount: str = "1.50", asset: Asset = Asset.USDC, **options: Any) -> Sent:
        """Sign a payment to an address that nobody used before; it is not sent."""
        adapter = self.adapter()
        order = options.pop("order", None) or Order(
            # As long as those of the product: on some chains it names an account.
            self.new_escrow_id(),
            asset,
            Decimal(amount),
            self.new_address(),
        )
        accounts = adapter.payee_accounts
        payees = accounts.observe_payees([(order.recipient, order.asset)], {}, lambda _: ()) if accounts else {}
        seen = {"state": adapter.observer.observe(), "payee": payees.get(order.recipient)}
        now = options.pop("now", None) or utc_now()
        plan: Any = {"order": order, "submitter": submitter, "signer": self.signer, **seen, **options}
        return Sent(adapter.preparer.prepare(TransactionPlan.of_one(**plan), now), submitter, order)

    def new_escrow_id(self) -> str:
        """Make what the chain is to know a payment by."""
        return self.adapter().preparer.escrow_id(f"pay_{os.urandom(13).hex()}", os.urandom(32))

    def land(self, *sent: Sent) -> dict[str, Inclusion]:
        """Offer transactions until all are in final blocks; returns where, by id."""
        adapter = self.adapter()

        def look() -> dict[str, Inclusion] | None:
            found = adapter.follower.find_inclusions(
                [one.sought for one in sent], adapter.follower.find_finality()
            ).inclusions
            if len(found) == len(sent) and all(one.is_final for one in found.values()):
                return dict(found)
            if missing := [one.raw for one in sent if one.tx not in found]:
                adapter.broadcaster.send(missing)
            return None

        return self.wait(look)

    def fates_of(self, *sent: Sent) -> list[LoneFate]:
        """Ask the chain what became of transactions, each with one order or none."""
        adapter = self.adapter()
        fates = adapter.prover.find_fates([one.sought for one in sent], adapter.follower.find_finality())
        return [lone(fates[one.tx]) for one in sent]

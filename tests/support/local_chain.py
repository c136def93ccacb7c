"""An embedded chain as anybody sees it, by plain JSON-RPC, with payments of the whole product on it.

Its mints, escrows and relayers are those that the settings name.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import requests
from django.conf import settings

from chains.port import ChainAdapter
from foundation.groups import in_each_group, read_of
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.lifecycle import OPEN_STATES, PaymentStatus
from payments.models import ChainState, DepositCursor, Payment, Settlement
from payments.reconciling.escrow_history import search_history
from payments.reconciling.watcher import observe
from payments.settling.broadcasting import broadcast
from payments.settling.confirming import confirm
from payments.settling.unpaid import resolve_unpaid
from services.models import Service
from services.served_chains import served_chains
from tests.support.factories import make_service
from tests.support.fake_chain import PATIENCE_S


@dataclass(frozen=True, slots=True)
class Transfer:
    """What left the escrow in one transaction, in base units of a token (its contract or mint)."""

    token: str
    recipient: str
    units: int


class Localnet(ABC):
    """One embedded chain. `assets` are some of each kind that it pays with."""

    caip2: ClassVar[str]
    alias: ClassVar[str]
    assets: ClassVar[Sequence[Asset]]
    mines_by: ClassVar[str]
    # How many blocks nobody looks at where nothing changes: on some chains many pass until something is final.
    skipped: ClassVar[int] = 0

    def __init__(self) -> None:
        self._known: list[tuple[str, str]] = []

    # --- What differs -------------------------------------------------------------------------------------------------
    @abstractmethod
    def new_address(self) -> str:
        """Make an address that nobody used before."""

    @abstractmethod
    def as_written(self, address: str) -> str:
        """Write an address as the chain's own records have it."""

    @abstractmethod
    def balance_of(self, asset: Asset, owner: str) -> int:
        """Read what somebody has in the newest block, in base units."""

    @abstractmethod
    def held(self, asset: Asset) -> int:
        """Read what the escrow has in the newest block, in base units."""

    @abstractmethod
    def find_block(self, tx: str) -> int | None:
        """Find the block that has a transaction; None: none does."""

    @abstractmethod
    def succeeded(self, tx: str) -> bool:
        """Tell whether a transaction that is in a block did what it says."""

    @abstractmethod
    def transfers(self, tx: str, payment_id: str) -> list[Transfer]:
        """Read what a transaction that names a payment took out of the escrow, from its own record."""

    @abstractmethod
    def reorganise(self, block_number: int) -> bool:
        """Let a block and those on it vanish, with all that is in them; False: it is too late for that."""

    # --- The node -----------------------------------------------------------------------------------------------------
    def rpc(self, method: str, *params: Any) -> Any:
        body: Any = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = requests.post(settings.CHAINS[self.caip2].rpc_urls[0], json=body, timeout=30).json()
        assert "error" not in answer, answer
        return answer["result"]

    def mine(self) -> None:
        self.rpc(self.mines_by)

    def token(self, asset: Asset) -> str:
        return settings.CHAINS[self.caip2].tokens[asset]

    # --- The product --------------------------------------------------------------------------------------------------
    @property
    def adapter(self) -> ChainAdapter:
        return served_chains()[self.caip2]

    def make_service(self, asset: Asset = Asset.USDC) -> Service:
        return make_service(asset=asset, recipient=f"{self.alias}:{self.new_address()}")

    def observe(self) -> None:
        """Let the watcher look, which does not run in tests: some chains forget soon what is signed by.

        It compares the chain with the configuration each time, not once a minute: what one test does to an escrow is
        seen in that test, not by chance in the next one.
        """
        ChainState.objects.filter(chain=self.caip2).update(checked_at=None)
        self._look()

    def _look(self) -> None:
        observe(self.caip2, self.adapter)

    def begin(self) -> None:
        """Let the tests' database know of the chain's history from now on: what was before, another one knew."""
        known = {"escrow": self.adapter.escrow.address, "block_number": self.bury(), "moved_at": utc_now()}
        DepositCursor.objects.update_or_create(chain=self.caip2, defaults=known)

    def bury(self) -> int:
        """Mine until a search of the escrow reaches all that has happened; returns the block that it reaches."""
        newest, trail = self.adapter.follower.find_finality().newest, self.adapter.escrow.deposits_trail
        while (reached := self.adapter.follower.find_finality().block_number - trail) < newest:
            self.mine()
        return reached

    def send(self) -> int:
        return sum(read_of(None, lambda: [broadcast(self.caip2, self.adapter)]))

    def follow(self) -> int:
        """Do what the sweep and the watcher of deposits do; returns how many transactions came to an end."""
        ended = Settlement.objects.filter(chain=self.caip2).exclude(state__in=OPEN_STATES)
        before = ended.count()
        confirm_all = partial(in_each_group, lambda: confirm(self.caip2, self.adapter))
        if self.adapter.nonces is not None:
            confirm_all()
        search_history(self.caip2, self.adapter)
        if self.adapter.nonces is None:
            confirm_all()
        in_each_group(lambda: resolve_unpaid(self.caip2, self.adapter))
        return ended.count() - before

    def include(self, payment: Payment) -> int:
        """Send a payment, whose newest transaction some block then has; returns the block's number."""
        tx = payment.settlements.latest("created_at").tx
        deadline = time.monotonic() + PATIENCE_S
        self.send()
        while (number := self.find_block(tx)) is None:
            assert time.monotonic() < deadline, "no block takes it"
            self.mine()
        return number

    def drain(self) -> None:
        """Send and follow all that is under way until nothing is."""
        deadline = time.monotonic() + PATIENCE_S
        approved = Payment.objects.filter(chain=self.caip2, status=PaymentStatus.APPROVED)
        look = self.observe
        while approved.exists() or Settlement.objects.filter(chain=self.caip2, state__in=OPEN_STATES).exists():
            assert time.monotonic() < deadline, "the chain does not come to an end"
            look()
            self.send()
            self.follow()
            self.go_on()
            look = self._look

    def go_on(self) -> None:
        """Make a block; several where nothing was different after the last one: no watcher looks at each."""
        known, self._known = self._known, self._under_way()
        self.mine()
        if known == self._known and self.skipped:
            self.advance(self.skipped)

    def advance(self, blocks: int) -> None:
        """Let so many blocks pass, whatever waits."""
        self.rpc("dev_advance", blocks)

    def _under_way(self) -> list[tuple[str, str]]:
        rows = Settlement.objects.filter(chain=self.caip2, state__in=OPEN_STATES)
        return list(rows.order_by("pk").values_list("pk", "state"))

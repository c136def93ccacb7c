"""What a chain must be able to do, in terms that hold for every chain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from allowance.kernel.assets import Asset
from policy.signer import PolicySigner


class ChainUnavailable(Exception):
    """Raise when a chain cannot be prepared for or asked now. It says nothing about any payment."""


class TransactionRefused(Exception):
    """Raise when a node answered that it does not take a transaction now. It says nothing about its fate."""


@dataclass(frozen=True, slots=True)
class Order:
    """A payment as a chain sees it: `amount` in units of `asset`, `recipient` a canonical address."""

    payment_id: str
    asset: Asset
    amount: Decimal
    recipient: str


@dataclass(frozen=True, slots=True)
class Turn:
    """A relayer's next place in line: its index in the derivation path, its address, the nonce to use."""

    relayer_number: int
    relayer_address: str
    nonce: int


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """A transaction that is ready to send: `tx` is the chain's own id, known before the first broadcast."""

    tx: str
    raw: bytes
    valid_until: datetime


@dataclass(frozen=True, slots=True)
class Inclusion:
    """Where a transaction was found. `failure` is None if it paid what was ordered, else what happened instead."""

    block_number: int
    is_final: bool
    failure: str | None


@dataclass(frozen=True, slots=True)
class Finality:
    """The newest final block: nothing up to it changes any more. `time` is the chain's own."""

    block_number: int
    time: datetime


class ChainAdapter(Protocol):
    """One chain. Only `prepare` is used on the money path, and it asks no node."""

    def prepare(
        self, order: Order, turn: Turn, state: Mapping[str, Any], now: datetime, signer: PolicySigner
    ) -> SignedTransaction:
        """Co-sign and sign the transaction of a payment from what the watcher saw.

        Raises:
            ChainUnavailable: the asset is not served here.
            SignerUnavailable: the policy signer did not co-sign.
        """

    def observe(self) -> dict[str, Any]:
        """Read what `prepare` needs to know of the chain, as JSON. Raises `ChainUnavailable`."""

    def send(self, raw: bytes) -> None:
        """Offer a signed transaction to a node; one that has it already is fine.

        Raises `ChainUnavailable`, `TransactionRefused`.
        """

    def find_finality(self) -> Finality:
        """Read the newest final block. Raises `ChainUnavailable`."""

    def find_inclusions(self, expected: Sequence[tuple[str, Order]], finality: Finality) -> dict[str, Inclusion]:
        """Look up transactions by id; absent from the answer: in no block that the node knows.

        Raises `ChainUnavailable`.
        """

    def proves_absence(self, order: Order, finality: Finality) -> bool:
        """Tell whether the chain itself says that an order was not paid up to a final block.

        False: it was paid, or that cannot be told. Raises `ChainUnavailable`.
        """

    def relayer_address(self, number: int) -> str:
        """Derive the address of a relayer."""

    def relayer_nonce(self, number: int) -> int:
        """Read the next nonce of a relayer from the chain. Raises `ChainUnavailable`."""

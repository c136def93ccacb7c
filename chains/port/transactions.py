"""Values of a transaction's way: the order, the signed transaction, where it is included, what is final. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from allowance.kernel.assets import Asset

# How many blocks one honest node may be ahead of another.
_LEAD = 64


class ChainUnavailable(Exception):
    """Raise when a chain cannot be prepared for or asked now. It says nothing about any payment."""


@dataclass(frozen=True, slots=True)
class Order:
    """A payment as a chain sees it: `amount` in units of `asset`, `recipient` a canonical address.

    `escrow_id` is what the chain knows it by (`Preparer.escrow_id`). `attempt`: how many of its transactions have
    expired, on a chain where an expired one is signed again without a nonce.
    """

    escrow_id: str
    asset: Asset
    amount: Decimal
    recipient: str
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Submitter:
    """The relayer of a transaction: its index in the derivation path, its address, the nonce to use.

    `nonce` is None on a chain without nonces: there no transaction waits for an earlier one.
    """

    relayer_number: int
    relayer_address: str
    nonce: int | None

    @property
    def required_nonce(self) -> int:
        """The nonce, on a chain that has them."""
        if self.nonce is None:
            raise AssertionError(f"{self.relayer_address} has no nonces.")
        return self.nonce


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """A transaction that is ready to send: `tx` is the chain's own id, known before the first broadcast.

    `valid_until`: when the chain begins to refuse it, by the chain's own time; `valid_until_height`: at which height of
    the chain. None: never for that reason. `valid_from_block`: no earlier block can include it; None: unknown.
    `most_cost`: the most gas money that it can cost, in units of the chain's own coin.
    """

    tx: str
    raw: bytes
    most_cost: Decimal
    valid_until: datetime | None = None
    valid_until_height: int | None = None
    valid_from_block: int | None = None


@dataclass(frozen=True, slots=True)
class Finality:
    """The newest final block: nothing up to it changes any more. `time` is the chain's own.

    `newest` is the newest block of all, which may still be lost. Where a block's number is not its height, and
    transactions expire by height: `height` of the final block, and `skipped`, how many numbers up to it have no block,
    at most. Else both are 0.
    """

    block_number: int
    time: datetime
    newest: int
    height: int = 0
    skipped: int = 0

    @property
    def horizon(self) -> int:
        """The highest block that a node ahead of the others could have: a higher one does not exist."""
        return self.newest + _LEAD


@dataclass(frozen=True, slots=True)
class TransactionQuery:
    """A transaction to look for. `order` is None if it does not pay; the block is where it was last seen.

    `most_cost` is as of `SignedTransaction`; None: it was not recorded.
    """

    tx: str
    raw: bytes
    submitter: Submitter
    order: Order | None
    block_number: int | None
    block_hash: str
    valid_until_height: int | None = None
    valid_from_block: int | None = None
    most_cost: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Inclusion:
    """The block that includes a transaction. `failure` is None if it did what it was made for, else what happened.

    Before it is final, `failure` says nothing yet.
    """

    block_number: int
    block_hash: str
    is_final: bool
    failure: str | None


@dataclass(frozen=True, slots=True)
class Observation:
    """One node's view of the queried transactions, by id, and of their relayers, by address.

    Absent from `inclusions`: in no block that the node knows. `mined_nonces`: the first nonce that no block has used;
    empty on a chain without nonces.
    """

    inclusions: Mapping[str, Inclusion]
    mined_nonces: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class IncludedPayment:
    """A payment's transaction in a block; unless `is_final`, one node alone says so, and the block may vanish."""

    raw: bytes
    is_final: bool


@dataclass(frozen=True, slots=True)
class NonceState:
    """The first nonces of an account that no block, and that no final block has used."""

    mined: int
    final: int


@dataclass(frozen=True, slots=True)
class RelayerState:
    """A relayer's gas money, and its nonces; None on a chain without.

    In units of the chain's own coin: `balance`; `spendable`, the part of it that may be spent; `most_cost`, the most
    that another transaction costs. Where there are several nodes, two must confirm the balance.
    """

    balance: Decimal
    spendable: Decimal
    most_cost: Decimal
    nonces: NonceState | None

    @property
    def affords(self) -> int:
        """How many transactions the gas money pays for, if nothing is in flight."""
        return int(self.spendable // self.most_cost)

"""The values of a transaction's way: the order, the signed transaction, its inclusion, finality. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from foundation.kernel.assets import Asset

# The most blocks by which one honest node may be ahead of another.
_LEAD = 64
_LONG_AGO = datetime.fromtimestamp(0, UTC)


class ChainUnavailable(Exception):
    """Raise when a chain cannot be asked, or signed for, now. This says nothing about the outcome of any payment."""


@dataclass(frozen=True, slots=True)
class AuthorizedBy:
    """The contracts that decide what becomes of an authorization (EIP-3009): the `escrow` that gave it, its `token`."""

    escrow: str
    token: str


@dataclass(frozen=True, slots=True)
class Order:
    """A payment as a chain sees it: `amount` in units of `asset`, `recipient` a canonical address.

    `escrow_id` is its id on the chain (`Preparer.escrow_id`). `attempt`: the number of its transactions that have
    expired, on a chain without nonces, where an expired one is signed again. `authorized_by`: None, unless the payee
    takes the money by an authorization.
    """

    escrow_id: str
    asset: Asset
    amount: Decimal
    recipient: str
    attempt: int = 0
    authorized_by: AuthorizedBy | None = None


@dataclass(frozen=True, slots=True)
class Submitter:
    """The relayer of a transaction: its number in the derivation path, its address, the nonce to use.

    `nonce` is None on a chain without nonces, where no transaction waits for an earlier one.
    """

    relayer_number: int
    relayer_address: str
    nonce: int | None

    @property
    def required_nonce(self) -> int:
        """The nonce, on a chain that has nonces."""
        if self.nonce is None:
            raise AssertionError(f"{self.relayer_address} has no nonces.")
        return self.nonce


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """A transaction that is ready to be submitted: `tx` is the chain's own id, known before the first broadcast.

    From `valid_until` on, by the chain's own time, and above `valid_until_height`, the chain refuses it; None: no such
    limit. No block before `valid_from_block` can include it; None: unknown. `most_cost`: the most gas money that it can
    cost, in units of the chain's own coin.
    """

    tx: str
    raw: bytes
    most_cost: Decimal
    valid_until: datetime | None = None
    valid_until_height: int | None = None
    valid_from_block: int | None = None


@dataclass(frozen=True, slots=True)
class Finality:
    """The newest final block, up to which nothing changes any more; `time` is the chain's own.

    `newest` is the newest block of all, which may still be lost. Where block numbers are not heights, and transactions
    expire by height: `height` is that of the final block, and `skipped` the highest possible count of numbers up to it
    that have no block. Otherwise both are 0.

    `time_by_all` is the earliest time that any node says of what is final: money is given back only where that is past
    a deadline, so that nodes which lie alike give nothing back. Where transactions expire by height, it is not used.
    """

    block_number: int
    time: datetime
    newest: int
    height: int = 0
    skipped: int = 0
    time_by_all: datetime = _LONG_AGO

    @property
    def horizon(self) -> int:
        """The highest block that a node ahead of the others could have; a higher one cannot exist."""
        return self.newest + _LEAD


@dataclass(frozen=True, slots=True)
class TransactionQuery:
    """A transaction to look for. `orders`: what it is to pay; the block is the last one that included it.

    `most_cost` is that of `SignedTransaction`; None: it was not recorded.
    """

    tx: str
    raw: bytes
    submitter: Submitter
    orders: Sequence[Order]
    block_number: int | None
    block_hash: str
    valid_until_height: int | None = None
    valid_from_block: int | None = None
    most_cost: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Inclusion:
    """The block that includes a transaction. `failure` says what went wrong; None: the transaction succeeded.

    `skipped`: by the escrow ids of the orders that it has not paid all the same, why. Before the block is final,
    `failure` is always None, `skipped` is empty, and both mean nothing.
    """

    block_number: int
    block_hash: str
    is_final: bool
    failure: str | None
    skipped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observation:
    """What nodes show of the queried transactions, by id, and of their relayers, by address. It is a hint.

    A transaction that is absent from `inclusions` is in no block that they know. `mined_nonces`: the first nonce
    that no block has used; empty on a chain without nonces.
    """

    inclusions: Mapping[str, Inclusion]
    mined_nonces: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class IncludedPayment:
    """A payment's transaction in a block. Unless `is_final`, only one node reports it, and the block may be lost."""

    raw: bytes
    is_final: bool


@dataclass(frozen=True, slots=True)
class NonceState:
    """The first nonce of an account that no block has used, and the first that no final block has used."""

    mined: int
    final: int

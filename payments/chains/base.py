"""What a chain must be able to do, in terms that hold for every chain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from allowance.kernel.assets import Asset
from policy.signer import PolicySigner

# By so many blocks one honest node may be ahead of another.
_LEAD = 64


class ChainUnavailable(Exception):
    """Raise when a chain cannot be prepared for or asked now. It says nothing about any payment."""


@dataclass(frozen=True, slots=True)
class Order:
    """A payment as a chain sees it: `amount` in units of `asset`, `recipient` a canonical address."""

    payment_id: str
    asset: Asset
    amount: Decimal
    recipient: str


@dataclass(frozen=True, slots=True)
class Turn:
    """A relayer's place in line: its index in the derivation path, its address, the nonce to use."""

    relayer_number: int
    relayer_address: str
    nonce: int


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """A transaction that is ready to send: `tx` is the chain's own id, known before the first broadcast.

    `valid_until` is when the chain begins to refuse it, by its own time; None: never.
    """

    tx: str
    raw: bytes
    valid_until: datetime | None


@dataclass(frozen=True, slots=True)
class Finality:
    """The newest final block: nothing up to it changes any more. `time` is the chain's own.

    `newest` is the newest block of all, which may still be lost.
    """

    block_number: int
    time: datetime
    newest: int

    @property
    def horizon(self) -> int:
        """The highest block that a node which is ahead of the others could have: what is beyond, there is not."""
        return self.newest + _LEAD


@dataclass(frozen=True, slots=True)
class Sought:
    """A transaction to look for. `order` is None if it only fills a nonce; the block is where it was last seen."""

    tx: str
    raw: bytes
    turn: Turn
    order: Order | None
    block_number: int | None
    block_hash: str


@dataclass(frozen=True, slots=True)
class Inclusion:
    """Where a transaction was found. `failure` is None if it did what it was made for, else what happened instead.

    Before it is final, `failure` says nothing yet.
    """

    block_number: int
    block_hash: str
    is_final: bool
    failure: str | None


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a node says of the transactions that were sought, by id, and of their relayers, by address.

    Absent from `inclusions`: in no block that the node knows. `mined_nonces`: the first nonce that no block has used.
    """

    inclusions: Mapping[str, Inclusion]
    mined_nonces: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Proof:
    """What the chain itself says of a transaction. All nodes that can tell say the same.

    `is_paid`: the escrow counts the order as paid; None: that cannot be told. False for what only fills a nonce. It is
    for good once the order cannot be paid any more: its nonce is used in a final block, or one is past its deadline.
    `is_nonce_used`: in a final block; `is_nonce_mined`: in the newest one. None: that cannot be told.
    """

    is_paid: bool | None
    is_nonce_used: bool | None
    is_nonce_mined: bool | None


@dataclass(frozen=True, slots=True)
class RelayerSighting:
    """What the chain says of a relayer: nonces that no block, no final block has used; its gas money.

    `balance` is in units of the chain's own coin; `affords` is how many transactions it pays for at the highest fee.
    """

    mined_nonce: int
    final_nonce: int
    balance: Decimal
    affords: int


@dataclass(frozen=True, slots=True)
class DepositSighting:
    """One `Deposited` event in a final block. `amount` is in units of `asset`; in base units if that is None."""

    tx: str
    log_index: int
    block_number: int
    depositor: str
    token: str
    asset: Asset | None
    amount: Decimal
    named_agent: str


class ChainAdapter(Protocol):
    """One chain. Only `prepare` is used on the money path, and it asks no node.

    `configuration` names what is configured of it; what was observed for another is not signed by. `first_block` is
    where its `escrow` begins. All that asks nodes raises `ChainUnavailable` if none answers, or if they contradict each
    other where it matters.
    """

    configuration: str
    escrow: str
    first_block: int

    def prepare(
        self, order: Order, turn: Turn, state: Mapping[str, Any], now: datetime, signer: PolicySigner
    ) -> SignedTransaction:
        """Co-sign and sign the transaction of a payment from what the watcher saw.

        Raises:
            ChainUnavailable: the asset is not served here.
            SignerUnavailable: the policy signer did not co-sign.
        """

    def prepare_filler(self, turn: Turn, state: Mapping[str, Any]) -> SignedTransaction:
        """Sign a transaction that moves nothing and only uses up a nonce, so that those after it can land."""

    def raise_fee(self, raw: bytes, turn: Turn, state: Mapping[str, Any]) -> SignedTransaction | None:
        """Sign a transaction again with a fee that nodes accept in its place: same nonce, same contents otherwise.

        None: its fee is the highest that is allowed. `valid_until` is None here: it is the one it had.
        """

    def observe(self) -> dict[str, Any]:
        """Read what `prepare` needs to know of the chain, as JSON."""

    def observe_relayers(self, addresses: Sequence[str]) -> dict[str, RelayerSighting]:
        """Read nonces and gas money of relayers, by address."""

    def relayer_address(self, number: int) -> str:
        """Derive the address of a relayer."""

    def send(self, raws: Sequence[bytes]) -> list[str | None]:
        """Offer signed transactions to a node, in order; returns for each why it was not taken, None if it was.

        One that the node has already, or whose nonce is used, counts as taken: looking for it will tell.
        """

    def find_finality(self) -> Finality:
        """Read the newest final block."""

    def find_lost(self, blocks: Sequence[tuple[int, str]]) -> list[str]:
        """Tell which of these blocks (number, hash) are no longer on the chain, by hash.

        One whose number a node does not have is not lost: the node may be behind.
        """

    def find_inclusions(self, sought: Sequence[Sought], finality: Finality) -> Sighting:
        """Look for transactions. What a node cannot tell stays as it was known."""

    def find_proofs(self, sought: Sequence[Sought], finality: Finality) -> dict[str, Proof]:
        """Ask the chain about transactions, by id; every node that answers is heard."""

    def find_reason(self, sought: Sought, block_number: int) -> str:
        """Say in a sentence why a transaction in a block reverted, as far as that can be told."""

    def find_deposits(self, first_block: int, last_block: int) -> list[DepositSighting]:
        """Read the escrow's deposits in a range of final blocks; every node that answers is heard.

        A range may be too long for a node: then this raises `ChainUnavailable`, too.
        """

    def find_holdings(self, block_number: int) -> dict[Asset, Decimal]:
        """Read what the escrow holds of each served asset as of a final block, in units of the asset."""

    def find_mismatches(self) -> list[str]:
        """Compare the chain with what is configured; a sentence for each difference that forbids paying here."""

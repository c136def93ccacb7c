"""What a chain must be able to do, in terms that hold for every chain."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol

from allowance.kernel.assets import Asset

# By so many blocks one honest node may be ahead of another.
_LEAD = 64


class SignerUnavailable(Exception):
    """Raise when the signer cannot be reached or will not sign: nothing may be paid."""


class PaymentSigner(Protocol):
    """The part of the policy signer that a chain uses: it signs payments in the form that the chain asks for.

    Every method raises `SignerUnavailable` when it cannot do its part.
    """

    def authorize(self, digest: bytes) -> bytes:
        """Sign a 32-byte EIP-712 digest; returns 65 bytes, r, s, v with v 27 or 28."""

    @property
    def solana_address(self) -> bytes:
        """The 32-byte public key that payments on Solana are co-signed with."""

    def cosign(self, message: bytes) -> bytes:
        """Sign the message of a Solana transaction; returns 64 bytes of Ed25519."""


class ChainUnavailable(Exception):
    """Raise when a chain cannot be prepared for or asked now. It says nothing about any payment."""


@dataclass(frozen=True, slots=True)
class Order:
    """A payment as a chain sees it: `amount` in units of `asset`, `recipient` a canonical address.

    `escrow_id` is what the chain knows it by (`ChainAdapter.escrow_id`). `attempt`: how many of its transactions have
    expired.
    """

    escrow_id: str
    asset: Asset
    amount: Decimal
    recipient: str
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Submitter:
    """A relayer's place in line: its index in the derivation path, its address, the nonce to use.

    `nonce` is None on a chain without nonces: there nothing waits for anything before it.
    """

    relayer_number: int
    relayer_address: str
    nonce: int | None

    @property
    def place(self) -> int:
        """The nonce, on a chain that has them."""
        if self.nonce is None:
            raise AssertionError(f"{self.relayer_address} has no nonces.")
        return self.nonce


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """A transaction that is ready to send: `tx` is the chain's own id, known before the first broadcast.

    `valid_until` is when the chain begins to refuse it, by its own time; `valid_until_height`, at which height of the
    chain. None: never for that reason. `valid_from_block`: no block before this one can have it; None: unknown.
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

    `newest` is the newest block of all, which may still be lost. `height`: how many blocks led to the final one, where
    that differs from its number and transactions expire by it; `skipped`: how many numbers up to it have no block, at
    most.
    """

    block_number: int
    time: datetime
    newest: int
    height: int = 0
    skipped: int = 0

    @property
    def horizon(self) -> int:
        """The highest block that a node which is ahead of the others could have: what is beyond, there is not."""
        return self.newest + _LEAD


@dataclass(frozen=True, slots=True)
class TransactionQuery:
    """A transaction to look for. `order` is None if it is not to pay; the block is where it was last seen.

    `most_cost` is what it was signed for, as of `SignedTransaction`; None: that was not recorded.
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
    """Where a transaction was found. `failure` is None if it did what it was made for, else what happened instead.

    Before it is final, `failure` says nothing yet.
    """

    block_number: int
    block_hash: str
    is_final: bool
    failure: str | None


@dataclass(frozen=True, slots=True)
class Observation:
    """What a node says of the transactions that were sought, by id, and of their relayers, by address.

    Absent from `inclusions`: in no block that the node knows. `mined_nonces`: the first nonce that no block has used;
    empty where there are none.
    """

    inclusions: Mapping[str, Inclusion]
    mined_nonces: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Proof:
    """What the chain itself says of a transaction. All nodes that can tell say the same.

    `is_paid`: the escrow counts the order as paid; False: neither paid nor void; None: void, or that cannot be told.
    False for what is not to pay. False is for good only once every signature for the order is past its deadline.
    `is_nonce_used`: in a final block; `is_nonce_mined`: in the newest one. None: that cannot be told. On a chain
    without nonces both speak of the transaction itself.
    """

    is_paid: bool | None
    is_nonce_used: bool | None
    is_nonce_mined: bool | None


@dataclass(frozen=True, slots=True)
class NonceState:
    """The first nonces of an account that no block, and that no final block has used."""

    mined: int
    final: int


@dataclass(frozen=True, slots=True)
class RelayerState:
    """What the chain says of a relayer: its gas money, and its nonces; None on a chain without.

    In units of the chain's own coin: `balance`; `spendable`, what of it may be spent; `most_cost`, the most that
    another transaction costs. Of several nodes two have to say that there is so much.
    """

    balance: Decimal
    spendable: Decimal
    most_cost: Decimal
    nonces: NonceState | None

    @property
    def affords(self) -> int:
        """How many transactions the gas money pays for, if nothing is under way."""
        return int(self.spendable // self.most_cost)


@dataclass(frozen=True, slots=True)
class DepositEvent:
    """One deposit in a final block, `log_index` its position there.

    `amount` is in units of `asset`; in base units if that is None.
    """

    tx: str
    log_index: int
    block_number: int
    depositor: str
    token: str
    asset: Asset | None
    amount: Decimal
    named_agent: str


@dataclass(frozen=True, slots=True)
class OutflowEvent:
    """What took `amount` out of the escrow, `log_index` its position in the block; amount and asset as of a deposit.

    `escrow_id`: which payment it names ("" none; on Solana, whatever its memo says). `recipient`: "" if not told.
    """

    tx: str
    log_index: int
    block_number: int
    block_hash: str
    token: str
    asset: Asset | None
    amount: Decimal
    recipient: str
    escrow_id: str


@dataclass(frozen=True, slots=True)
class VoidEvent:
    """The escrow has marked an id as used without paying it: from then on nothing can pay it."""

    tx: str
    log_index: int
    block_number: int
    escrow_id: str


@dataclass(frozen=True, slots=True)
class IncludedPayment:
    """A payment's transaction in a block; unless `is_final`, that is one node's word, and the block may vanish."""

    raw: bytes
    is_final: bool


@dataclass(frozen=True, slots=True)
class EscrowSearch:
    """What came into an escrow, what left it, and what it has voided, each in the order of blocks."""

    deposits: Sequence[DepositEvent] = ()
    outflows: Sequence[OutflowEvent] = ()
    voids: Sequence[VoidEvent] = ()

    def block_numbers(self) -> Iterator[int]:
        """List in which blocks all of it is."""
        for found in (self.deposits, self.outflows, self.voids):
            yield from (one.block_number for one in found)


@dataclass(frozen=True, slots=True)
class MadeDeposit:
    """A deposit of our own that is in a block, which need not be final."""

    tx: str
    block_number: int


class NonceAdapter(Protocol):
    """What a chain must be able to do beside the rest if its accounts use up nonces, each one after the one before.

    Its escrow counts payments: it pays each id once, up to a deadline, and can mark one as used without paying it.
    """

    def prepare_void(
        self, escrow_id: str, submitter: Submitter, state: Mapping[str, Any], signer: PaymentSigner
    ) -> SignedTransaction:
        """Co-sign and sign a transaction that has the escrow mark an id as used without paying it.

        Raises:
            ChainUnavailable, SignerUnavailable: as `ChainAdapter.prepare` does.
        """

    def prepare_filler(self, submitter: Submitter, state: Mapping[str, Any]) -> SignedTransaction:
        """Sign a transaction that moves nothing and only uses up a nonce, so that those after it can land."""

    def raise_fee(self, raw: bytes, submitter: Submitter, state: Mapping[str, Any]) -> SignedTransaction | None:
        """Sign a transaction again with a fee that nodes accept in its place: same nonce, same contents otherwise.

        None: its fee is the highest that is allowed. `valid_until` is None here: it is the one it had.
        """


class ChainAdapter(Protocol):
    """One chain. Only `prepare` is used on the money path, and it asks no node.

    `configuration` names what is configured of it; what was observed for another is not signed by. `first_block` is
    where its `escrow` begins. `nonces` is None on a chain without nonces: there a transaction that expired is signed
    again. `most_relayers`: how many relayers the escrow can know; None: any number. What a node took is offered again
    after `resend_after`. Deposits are looked for up to `deposits_trail` blocks before the final one: nodes may write
    down later which accounts a block is about. `most_blocks_behind`: so many the chain makes in less than ten minutes.
    All that asks nodes raises `ChainUnavailable` if none answers, or if they contradict each
    other where it matters.
    """

    configuration: str
    escrow: str
    first_block: int
    resend_after: timedelta
    deposits_trail: int
    most_blocks_behind: int

    @property
    def nonces(self) -> NonceAdapter | None: ...

    @property
    def most_relayers(self) -> int | None: ...

    def escrow_id(self, payment_id: str, key_hash: bytes) -> str:
        """Say what the chain is to know a payment by; `key_hash` (32 bytes) stands for its idempotency key.

        Where the escrow itself pays each id once, that is the hash: so one key is paid once, whatever we remember.
        """

    def prepare(
        self,
        order: Order,
        submitter: Submitter,
        state: Mapping[str, Any],
        now: datetime,
        signer: PaymentSigner,
        *,
        payee: Mapping[str, Any] | None = None,
    ) -> SignedTransaction:
        """Co-sign and sign the transaction of a payment from what the watcher saw of the chain and of the payee.

        `payee` is None if nothing was seen of it.

        Raises:
            ChainUnavailable: the asset is not served here, or the payee cannot be paid so now.
            SignerUnavailable: the policy signer did not co-sign.
        """

    def find_most_cost(self, order: Order, state: Mapping[str, Any], payee: Mapping[str, Any] | None) -> Decimal:
        """Say the most that the transaction of a payment costs if it is prepared now, in units of the chain's coin.

        Raises:
            ChainUnavailable: as `prepare` does.
        """

    def observe(self) -> dict[str, Any]:
        """Read what `prepare` needs to know of the chain, as JSON."""

    def observe_payees(
        self,
        payees: Sequence[tuple[str, Asset]],
        known: Mapping[str, Mapping[str, Any]],
        find_landed: Callable[[Sequence[str]], Sequence[IncludedPayment]],
    ) -> dict[str, dict[str, Any]]:
        """Read what `prepare` needs to know of payees (address, asset), as JSON by address; `known` is what it was.

        `find_landed` tells which of our payments to some addresses landed lately. Where nodes contradict each other
        about a payee, what is known of it stays.
        """

    def find_objection(self, address: str) -> str | None:
        """Say in a sentence why an address is not to be paid, as far as the chain can tell; None: pay it."""

    def observe_relayers(self, addresses: Sequence[str]) -> dict[str, RelayerState]:
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

    def find_inclusions(self, sought: Sequence[TransactionQuery], finality: Finality) -> Observation:
        """Look for transactions. What a node cannot tell stays as it was known."""

    def find_proofs(self, sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Proof]:
        """Ask the chain about transactions, by id; every node that answers is heard."""

    def find_costs(self, sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Decimal]:
        """Find what transactions that came to an end have cost, by id, in units of the chain's own coin.

        0 for one that landed in no block and never will. One is left out while too few nodes can tell, or if they
        contradict each other. Every node that answers is heard.
        """

    def find_reason(self, sought: TransactionQuery, block_number: int) -> str:
        """Say in a sentence why a transaction in a block reverted, as far as that can be told."""

    def search_escrow(
        self, first_block: int, last_block: int, find_ours: Callable[[Sequence[str]], set[str]]
    ) -> EscrowSearch:
        """Search the escrow's history in a range of final blocks; every node that answers is heard.

        `find_ours` tells which of some transactions are known to have paid: those need not be looked at. A range may be
        too long for a node: then this raises `ChainUnavailable`, too.
        """

    def spends_from_escrow(self, raw: bytes) -> bool:
        """Tell whether a transaction, as it was signed, takes something out of the escrow that is configured."""

    def peek_escrow(self, finality: Finality) -> EscrowSearch:
        """Look at what left the escrow in blocks that are not final yet, as far as several nodes say the same of it."""

    def find_holdings(self, block_number: int) -> dict[Asset, Decimal]:
        """Read what the escrow holds of each served asset as of a final block, in units of the asset."""

    def find_mismatches(self) -> list[str]:
        """Compare the chain with what is configured; a sentence for each difference that forbids paying here."""

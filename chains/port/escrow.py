"""The values of an escrow's history: deposits, outflows, voided payments. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from foundation.kernel.assets import Asset


@dataclass(frozen=True, slots=True)
class DepositEvent:
    """One deposit in a final block; `log_index` is its position in the block.

    `amount` is in units of `asset`; in base units if `asset` is None.
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
    """A transfer of `amount` out of the escrow; `log_index` and `asset` as of a deposit.

    `escrow_id`: the id of the payment that it names; "" if it names none; on Solana, the text of its memo. `recipient`:
    "" if unknown.
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
    """The escrow has marked an id as used without paying it: from then on no transaction can pay it."""

    tx: str
    log_index: int
    block_number: int
    escrow_id: str


@dataclass(frozen=True, slots=True)
class EscrowSearch:
    """The deposits, outflows and voids that a search of the escrow found, each in the order of blocks.

    `is_disputed`: most nodes say so, but some say otherwise. Then nothing is given back by it: neither because of its
    voids, nor because it lacks a payment.
    """

    deposits: Sequence[DepositEvent] = ()
    outflows: Sequence[OutflowEvent] = ()
    voids: Sequence[VoidEvent] = ()
    is_disputed: bool = False

    def block_numbers(self) -> Iterator[int]:
        """List the block numbers of all events that were found."""
        for events in (self.deposits, self.outflows, self.voids):
            yield from (event.block_number for event in events)


@dataclass(frozen=True, slots=True)
class MadeDeposit:
    """A deposit that we made ourselves, in a block that need not be final."""

    tx: str
    block_number: int

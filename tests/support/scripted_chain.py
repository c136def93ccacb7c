"""What happens on a fake chain: what tests write into it, and its blocks."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from chains.port import (
    Contradiction,
    DepositEvent,
    EscrowSearch,
    Fate,
    Finality,
    Inclusion,
    NonceFate,
    OutflowEvent,
    PaymentFate,
    TransactionQuery,
    VoidEvent,
)
from foundation.kernel.assets import Asset
from payments.models import Payment, Settlement

LONG_AGO = Finality(100, datetime(2020, 1, 1, tzinfo=UTC), newest=102, height=100)


@dataclass
class ScriptedChain:
    """What a test writes into a fake chain, and what happens on it.

    `hidden`: what is in a block, and is not shown to those who ask where it is. `contradicted`: blocks about which no
    nodes agree; `disputed`: those about which most agree. `time_by_all`: None: all nodes know the final block.
    """

    name: str
    seed: str = "relayer"
    sent: list[bytes] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    blocks: dict[str, Inclusion] = field(default_factory=dict)
    landed: dict[str, Settlement] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    refuses: set[bytes] = field(default_factory=set)
    mined: dict[str, int] = field(default_factory=dict)
    final_nonces: dict[str, int] = field(default_factory=dict)
    paid: set[str] = field(default_factory=set)
    voided: set[str] = field(default_factory=set)
    gas_money: dict[str, int] = field(default_factory=dict)
    mismatches: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    holdings: dict[Asset, Decimal] = field(default_factory=dict)
    deposits: list[DepositEvent] = field(default_factory=list)
    outflows: list[OutflowEvent] = field(default_factory=list)
    voids: list[VoidEvent] = field(default_factory=list)
    peeked: EscrowSearch = field(default_factory=EscrowSearch)
    asked_ranges: list[tuple[int, int]] = field(default_factory=list)
    longest_range: int = 10_000
    contradicted: set[int] = field(default_factory=set)
    disputed: set[int] = field(default_factory=set)
    contradictions: list[Contradiction] = field(default_factory=list)
    has_highest_fee: bool = False
    is_away: bool = False
    is_pruned: bool = False
    lags: bool = False
    finality: Finality = LONG_AGO
    time_by_all: datetime | None = None
    configuration: str = "fake"
    address: str = ""
    first_block: int = 0
    has_nonces: bool = True
    resend_after: timedelta = timedelta(seconds=30)
    deposits_trail: int = 0
    most_blocks_behind: int = 32
    payees: dict[str, dict[str, Any]] = field(default_factory=dict)
    objections: dict[str, str] = field(default_factory=dict)
    is_unprepared: bool = False
    demand_objection: str | None = None
    untold: set[str] = field(default_factory=set)
    most_together: int = 32

    def include(
        self,
        settlement: Settlement,
        *,
        is_final: bool = True,
        failure: str | None = None,
        skips: Mapping[str, str] | None = None,
    ) -> None:
        """Put a transaction into the next block; once that is final the escrow counts its payments, unless it fails.

        `skips`: by the escrow ids of those that it does not count, why.
        """
        number = self.finality.block_number + 1
        if settlement.tx in self.blocks:
            number = self.blocks[settlement.tx].block_number
        fork = hashlib.sha256(f"{number} {sorted(self.lost)}".encode()).hexdigest()
        self.blocks[settlement.tx] = Inclusion(
            number, f"0x{fork}", is_final=False, failure=failure, skipped=skips or {}
        )
        self.landed[settlement.tx] = settlement
        if self.has_nonces:
            address = settlement.relayer.address
            self.mined[address] = max(self.mined.get(address, 0), (settlement.nonce or 0) + 1)
        if is_final:
            self.finalise(number)

    def finalise(self, number: int) -> None:
        """Let all blocks up to this one be final."""
        number = max(number, self.finality.block_number)
        self.finality = Finality(number, self.finality.time, number + 2, height=number)
        for tx, inclusion in self.blocks.items():
            if inclusion.block_number <= number:
                self._count(self.landed[tx], inclusion)

    def vanish(self, settlement: Settlement) -> None:
        """Reorganise the chain: a transaction is in no block any more, nor is its block on the chain."""
        self.lost.add(self.blocks.pop(settlement.tx).block_hash)
        if self.has_nonces:
            address = settlement.relayer.address
            self.mined[address] = min(self.mined[address], settlement.nonce or 0)

    def reach(self, moment: datetime) -> None:
        """Let the chain's final block be of this moment."""
        self.finality = replace(self.finality, time=moment)

    def _proof(self, one: TransactionQuery) -> Fate:
        if self.lags:
            return Fate.of_all(one, PaymentFate.UNKNOWN, NonceFate.UNKNOWN)
        nonce = one.submitter.nonce or 0
        is_used = self.final_nonces.get(one.submitter.relayer_address, 0) > nonce
        fate = NonceFate.USED if is_used else NonceFate.UNUSED
        if self.is_pruned:
            is_mined = self.mined.get(one.submitter.relayer_address, 0) > nonce
            fate = NonceFate.MINED if is_mined else NonceFate.UNKNOWN
        return Fate({order.escrow_id: self._payment_fate(order.escrow_id) for order in one.orders}, fate)

    def _payment_fate(self, escrow_id: str) -> PaymentFate:
        if escrow_id in self.voided:
            return PaymentFate.UNKNOWN
        return PaymentFate.PAID if escrow_id in self.paid else PaymentFate.UNPAID

    def _fate_without_nonces(self, one: TransactionQuery) -> Fate:
        seen = self.blocks.get(one.tx)
        if self.lags or (seen is not None and seen.block_number > self.finality.block_number):
            return Fate.of_all(one, PaymentFate.UNKNOWN, NonceFate.UNKNOWN)
        if seen is None:
            is_over = self.finality.height > (one.valid_until_height or 0)
            is_absent = is_over and not self.is_pruned
            return Fate.of_all(one, PaymentFate.UNPAID if is_absent else PaymentFate.UNKNOWN, NonceFate.UNUSED)
        return Fate({order.escrow_id: self._payment_fate(order.escrow_id) for order in one.orders}, NonceFate.USED)

    def _count(self, settlement: Settlement, inclusion: Inclusion) -> None:
        if self.has_nonces:
            address = settlement.relayer.address
            self.final_nonces[address] = max(self.final_nonces.get(address, 0), (settlement.nonce or 0) + 1)
        if inclusion.failure is None:
            ids = {payment.escrow_id for payment in settlement.payments.all()} - inclusion.skipped.keys()
            self.voided.update(ids) if settlement.is_void else self.paid.update(ids)

    def _events(self, tx: str, inclusion: Inclusion) -> Iterator[OutflowEvent | VoidEvent]:
        """Tell of a transaction that did what it was made for as the escrow's history does."""
        for index, payment in enumerate(self.landed[tx].payments.order_by("pk")):
            if payment.escrow_id in inclusion.skipped:
                continue
            if self.landed[tx].is_void:
                yield VoidEvent(tx, index, inclusion.block_number, payment.escrow_id)
            else:
                recipient = payment.recipient if self.has_nonces else ""
                found = outflow_of(payment, tx, inclusion.block_number, recipient=recipient, log_index=index)
                yield replace(found, block_hash=inclusion.block_hash)


def outflow_of(payment: Payment, tx: str, block_number: int, **changes: Any) -> OutflowEvent:
    """Make what the escrow's history says of a payment that was made by a transaction."""
    found = OutflowEvent(
        tx=tx,
        log_index=0,
        block_number=block_number,
        block_hash=f"0x{block_number:064x}",
        token="token",
        asset=Asset(payment.asset),
        amount=payment.amount,
        recipient=payment.recipient,
        escrow_id=payment.escrow_id,
    )
    return replace(found, **changes)

"""A change of a transaction's state, as it is wanted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from payments.lifecycle import LIVE_STATES, SettlementState
from payments.settling.transaction_rows import LegRow, TransactionRow


@dataclass(frozen=True, slots=True)
class StateChange:
    """A settlement as it was read, and its next state; the block is the one in which it was seen, if any.

    `displaces`: the open transaction, as it was read, in whose place this one was included. It ends with this change or
    not at all. `needs_resending`: its bytes are sent to the nodes again at once. `skipped`: by the escrow ids of the
    payments that the transaction is final without, why.
    """

    settlement: TransactionRow
    state: SettlementState
    reason: str = ""
    block_number: int | None = None
    block_hash: str = ""
    needs_resending: bool = False
    displaces: TransactionRow | None = None
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def paid(self) -> list[LegRow]:
        """The legs that the transaction has paid, if it is final now."""
        return [leg for leg in self.settlement.to_pay if leg.escrow_id not in self.skipped]

    @property
    def left_out(self) -> list[tuple[str, str, str]]:
        """The legs that the transaction is final without: its id, that of the payment, and why."""
        row = self.settlement
        return [
            (row.tx, leg.payment_id, self.skipped[leg.escrow_id]) for leg in row.to_pay if leg.escrow_id in self.skipped
        ]

    @property
    def is_revived(self) -> bool:
        """Whether the transaction had ended without paying, as it seemed."""
        return self.settlement.state not in LIVE_STATES and self.state in LIVE_STATES

    @property
    def changes(self) -> Sequence["StateChange"]:
        """The change that ends the displaced transaction, if there is one, and this one."""
        if self.displaces is None:
            return [self]
        return [
            StateChange(self.displaces, SettlementState.REPLACED, f"{self.settlement.tx} was included in its place."),
            self,
        ]

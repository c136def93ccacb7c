"""Empty an escrow of earlier keys on a Solana chain into the new one.

Each transfer is booked before anybody can send it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from chains.port import Finality
from chains.solana.adapter import SolanaChain
from chains.solana.derivation import relayer_keypair
from foundation.commands import AUTHOR
from foundation.environment.keys import held_key
from foundation.kernel.assets import Asset
from foundation.kernel.money import format_amount, from_base_units
from owner.escrow_transfers import (
    book_transfer,
    cancel_transfers,
    find_open_transfers,
    find_searched_block,
)
from owner.rotations import (
    Task,
    find_in_flight,
)
from owner.solana.moving import HeldToken, Keys, Mover, SignedTransfer, find_held, old_chain, read_signers
from payments.models import DepositCursor, Withdrawal
from payments.reconciling.escrow_history import search_former_escrow, search_history
from payments.settling.confirming import confirm
from payments.settling.next_states import HEIGHT_MARGIN

# A search of a history that is behind by no more than this counts as done.
_MAX_BLOCKS_BEHIND = 100


@dataclass(slots=True)
class _Transfer:
    """A booked transfer, and the transaction that was made for it."""

    row: Withdrawal
    made: SignedTransfer


class FormerEscrow:
    """An escrow of earlier keys, which is being emptied into the new one."""

    def __init__(self, task: Task, chain: SolanaChain, escrow: str, keys: Keys) -> None:
        self._task, self._new, self._keys, self.escrow = task, chain, keys, escrow
        self._chain = old_chain(chain, held_key("RELAYER_SEED"), read_signers(chain.nodes, escrow))
        self._searched: int | None = None

    def check_keys(self) -> None:
        """Check that enough keys are here before anything is done."""
        self._mover()

    def find_held(self) -> dict[Asset, HeldToken]:
        """Find the tokens that are to be transferred."""
        return self._task.ask(lambda: find_held(self._chain.nodes, self._chain.escrow))

    def wait_for_payments(self) -> None:
        """Wait until no payment is in flight. A payment that has expired is given back; none is signed again here."""
        self._task.wait(self._follow_payments)

    def empty(self) -> None:
        """Transfer everything that is there now; what comes later is for the next run."""
        mover = self._mover()
        self._task.wait(self._conclude_earlier_run)
        held = list(self.find_held())
        # An owner who has to sign gets one transaction at a time, because it expires within a minute.
        for assets in [held] if mover.signs_alone else [[asset] for asset in held]:
            self._transfer(mover, assets)

    def _mover(self) -> Mover:
        return Mover(self._chain, self._keys, self._new.signers, relayer_keypair(held_key("RELAYER_SEED"), 0))

    def _transfer(self, mover: Mover, assets: Sequence[Asset]) -> None:
        while assets:
            held = self.find_held()
            transfers = [self._book(mover, asset, held[asset]) for asset in assets if asset in held]
            self._task.wait(partial(self._follow, transfers))
            assets = [Asset(one.row.asset) for one in transfers if one.row.landed_block is None]

    def _book(self, mover: Mover, asset: Asset, held: HeldToken) -> _Transfer:
        amount = from_base_units(held.units, asset)
        row = book_transfer(
            self._task.caip2,
            escrow=self.escrow,
            asset=asset,
            amount=amount,
            recipient=mover.recipient(held),
            by=AUTHOR,
        )
        made = self._task.ask(lambda: mover.make(held, row.reference, self._chain.follower.find_finality()))
        # Recorded before anybody has the transaction.
        row.valid_until_height = made.last_height
        row.save(update_fields=["valid_until_height"])
        self._task.tell(f"{format_amount(amount)} {asset} are transferred as {row}, by {made.tx}")
        if made.missing:
            self._task.tell(f"Within a minute {', '.join(made.missing)} has to sign and send this transaction:")
            self._task.show(made.text)
        return _Transfer(row, made)

    # --- What `wait` repeats ------------------------------------------------------------------------------------------
    def _search(self) -> int:
        """Search the history of this escrow; returns up to which block that was done."""
        cursor = DepositCursor.objects.filter(chain=self._task.caip2).first()
        if (self._task.served.escrow if cursor is None else cursor.escrow) == self.escrow:
            search_history(self._task.caip2, self._chain)
            return DepositCursor.objects.values_list("block_number", flat=True).get(chain=self._task.caip2) or 0
        if self._searched is None:
            self._searched = find_searched_block(self._task.caip2, self.escrow, self._task.served.first_block)
        self._searched = search_former_escrow(self._task.caip2, self._chain, after=self._searched)
        return self._searched

    def _follow_payments(self) -> str:
        if find_in_flight(self._task.caip2):
            self._search()
            confirm(self._task.caip2, self._chain, renews=False)
        return find_in_flight(self._task.caip2)

    def _follow(self, transfers: Sequence[_Transfer]) -> str:
        searched, finality = self._search(), self._chain.follower.find_finality()
        left, refusals = 0, []
        for one in transfers:
            one.row.refresh_from_db()
            if one.row.landed_block is not None or one.row.cancelled_at is not None:
                continue
            if _is_over(one.row, finality, searched):
                cancel_transfers([one.row])
                self._task.tell(f"{one.made.tx} was not included, and cannot be any more.")
                one.row.refresh_from_db()
                continue
            left += 1
            if not one.made.missing:
                refusals += [refusal for refusal in self._chain.broadcaster.send([one.made.raw]) if refusal is not None]
        refused = f" Nodes refuse one: {refusals[0]}" if refusals else ""
        return f"{left} of {len(transfers)} transfers have to become final.{refused}" if left else ""

    def _conclude_earlier_run(self) -> str:
        """Wait until the transfers that an earlier run has begun have landed or expired."""
        searched, finality = self._search(), self._chain.follower.find_finality()
        transfers = list(find_open_transfers(self._task.caip2, self.escrow))
        if not transfers:
            is_done = searched >= finality.block_number - self._chain.escrow.deposits_trail - _MAX_BLOCKS_BEHIND
            return "" if is_done else f"the history of {self.escrow} is searched up to block {searched} so far."
        cancel_transfers([row for row in transfers if _is_over(row, finality, searched)])
        left = find_open_transfers(self._task.caip2, self.escrow).count()
        return f"{left} transfers of an earlier run may still be included." if left else ""


def _is_over(row: Withdrawal, finality: Finality, searched: int) -> bool:
    """Tell whether a transfer that has not landed never will: nothing was signed for it, or what was has expired."""
    if row.valid_until_height is None:
        return True
    last_height = row.valid_until_height + HEIGHT_MARGIN
    return finality.height > last_height and searched >= last_height + finality.skipped

"""Move an escrow on a Solana chain to other keys: the keys are part of its address, so there is a new one.

What the old one holds moves there. Each move is booked before anybody can send it. What is in flight on the old escrow
comes to its end while that is still the one that is configured: its history alone can tell.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from allowance.commands import AUTHOR
from allowance.environment.keys import held_key
from allowance.kernel.assets import Asset
from allowance.kernel.errors import OperationRefused
from allowance.kernel.money import format_amount, from_base_units
from chains.port import Finality
from chains.solana.adapter import SolanaChain
from chains.solana.derivation import TOKEN_PROGRAM, relayer_keypair
from chains.solana.moving import Keys, Made, Mover, old_chain, read_signers
from chains.solana.withdrawing import HeldToken, find_held
from payments.funding.escrow_transfers import (
    book_transfer,
    cancel_transfers,
    find_open_transfers,
    find_searched_block,
    find_transfers,
)
from payments.management import deployments, solana_escrow
from payments.management.rotations import (
    OLD_SEED,
    OLD_SOLANA_KEY,
    Rotated,
    Task,
    find_in_flight,
    read_optional_key,
)
from payments.models import DepositCursor, Withdrawal
from payments.reconciling.escrow_history import search_former_escrow, search_history
from payments.served_chains import solana_chain
from payments.settling.confirming import confirm
from payments.settling.expiry import HEIGHT_MARGIN

# So far the search of a history may be behind to count as done.
_NEARLY_BLOCKS = 100


def rotate(task: Task) -> Rotated:
    """Make the escrow of the keys that are configured, and move there what those of earlier keys hold.

    Raises:
        ValueError: a variable is not what it should be.
        OperationRefused: there are not enough keys, the new relayer has no SOL, or a withdrawal is under way.
        ChainUnavailable: no node answers.
        NotYet: something has to be waited for.
    """
    chain = solana_chain(task.caip2)
    if chain.signers.objection:
        raise OperationRefused(chain.signers.objection)
    keys = _read_keys()
    new, used = str(chain.signers.escrow(TOKEN_PROGRAM)), task.served.escrow
    left = dict.fromkeys([*find_transfers(task.caip2).values_list("escrow", flat=True), task.old_escrow or used])
    others = [_Left(task, chain, escrow, keys) for escrow in left if escrow not in (new, used)]
    if used == new:
        _empty(others)
        return Rotated(is_to_be_set=False, facts={"escrow": new, "left": [one.escrow for one in others]})
    deployed = _replace(task, chain, _Left(task, chain, used, keys))
    _empty(others)
    variables = {"ESCROW": new, "OWNER": str(chain.signers.owner), "FIRST_BLOCK": str(deployed.first_block or "")}
    prefix = task.served.chain.variables
    return Rotated(
        variables={f"{prefix}_{name}": value for name, value in variables.items() if value},
        facts={"escrow": new, "left": [used, *(one.escrow for one in others)], "block": deployed.first_block},
    )


def _replace(task: Task, chain: SolanaChain, left: "_Left") -> deployments.Deployed:
    """Make the new escrow, and move everything there out of the one that is in use."""
    left.check_keys()
    _see_to_withdrawals(task)
    if task.is_now:
        task.stop()
    deployed = _deploy(task, chain)
    if deployed.first_block is None:
        task.tell("No node knows since when the escrow is there: its first block stays what an earlier run printed.")
    if not task.is_now:
        task.stop()
        left.drain()
    left.empty()
    # Before anybody is told to go on: what is in flight on the old escrow could not be told from there any more.
    left.drain()
    return deployed


def _empty(others: Sequence["_Left"]) -> None:
    for one in others:
        if one.find_held():
            one.empty()


def _deploy(task: Task, chain: SolanaChain) -> deployments.Deployed:
    deployment = deployments.Task(task.served, task.tell, lambda what, _escrow: task.confirm(what))
    deployed = solana_escrow.deploy(deployment, {"owner": str(chain.signers.owner), "daily_cap": []})
    if deployed.mismatches:
        # It is compared with what is configured, too, which is the old one until all is done.
        raise OperationRefused(" ".join(deployed.mismatches))
    return deployed


def _see_to_withdrawals(task: Task) -> None:
    """Say which withdrawals cannot happen any more once the tokens have moved."""
    waiting = Withdrawal.objects.filter(chain=task.caip2, agent__isnull=False, landed_block=None, cancelled_at=None)
    if names := ", ".join(waiting.order_by("pk").values_list("reference", flat=True)):
        text = f"Withdrawals are under way, which the old escrow could not pay any more: {names}."
        if not task.is_now:
            raise OperationRefused(f"{text} Let them land, or cancel them, first.")
        task.tell(f"{text} Cancel them, and book them again.")


def _read_keys() -> Keys:
    old_seed, old_key = read_optional_key(OLD_SEED, 64), read_optional_key(OLD_SOLANA_KEY, 32)
    return Keys(
        [held_key("RELAYER_SEED"), *([old_seed] if old_seed else [])],
        [held_key("POLICY_SIGNER_SOLANA_KEY"), *([old_key] if old_key else [])],
    )


@dataclass(slots=True)
class _UnderWay:
    move: Withdrawal
    made: Made


class _Left:
    """An escrow of earlier keys, which is being left."""

    def __init__(self, task: Task, chain: SolanaChain, escrow: str, keys: Keys) -> None:
        self._task, self._new, self._keys, self.escrow = task, chain, keys, escrow
        self._chain = old_chain(chain, held_key("RELAYER_SEED"), read_signers(chain.nodes, escrow))
        self._searched: int | None = None

    def check_keys(self) -> None:
        """See that enough keys are here before anything is done."""
        self._mover()

    def find_held(self) -> dict[Asset, HeldToken]:
        """Find what there is to be moved."""
        return self._task.ask(lambda: find_held(self._chain.nodes, self._chain.holder))

    def drain(self) -> None:
        """Follow what is in flight until nothing is. What has expired is given back: here nothing is signed anew."""
        self._task.wait(self._follow_payments)

    def empty(self) -> None:
        """Move everything that is there now; what comes later is for the next run."""
        mover = self._mover()
        self._task.wait(self._resolve)
        held = list(self.find_held())
        # The owner signs one at a time, within a minute.
        for assets in [held] if mover.signs_alone else [[asset] for asset in held]:
            self._move(mover, assets)

    def _mover(self) -> Mover:
        return Mover(self._chain, self._keys, self._new.signers, relayer_keypair(held_key("RELAYER_SEED"), 0))

    def _move(self, mover: Mover, assets: Sequence[Asset]) -> None:
        while assets:
            held = self.find_held()
            under_way = [self._send(mover, asset, held[asset]) for asset in assets if asset in held]
            self._task.wait(lambda under_way=under_way: self._follow_moves(under_way))  # type: ignore[misc]
            assets = [Asset(one.move.asset) for one in under_way if one.move.landed_block is None]

    def _send(self, mover: Mover, asset: Asset, held: HeldToken) -> _UnderWay:
        amount = from_base_units(held.units, asset)
        move = book_transfer(
            self._task.caip2,
            escrow=self.escrow,
            asset=asset,
            amount=amount,
            recipient=mover.recipient(held),
            by=AUTHOR,
        )
        made = self._task.ask(lambda: mover.make(held, move.reference, self._chain.find_finality()))
        # Written down before anybody has it.
        move.valid_until_height = made.last_height
        move.save(update_fields=["valid_until_height"])
        self._task.tell(f"{format_amount(amount)} {asset} move as {move}, by {made.tx}")
        if made.missing:
            self._task.tell(f"Within a minute {', '.join(made.missing)} has to sign and send this transaction:")
            self._task.show(made.text)
        return _UnderWay(move, made)

    # --- What is looked at again and again ----------------------------------------------------------------------------
    def _search(self) -> int:
        """Follow the history of this escrow; returns up to which block that was done."""
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

    def _follow_moves(self, under_way: Sequence[_UnderWay]) -> str:
        searched, finality = self._search(), self._chain.find_finality()
        left, refusals = 0, []
        for one in under_way:
            one.move.refresh_from_db()
            if one.move.landed_block is not None or one.move.cancelled_at is not None:
                continue
            if _is_over(one.move, finality, searched):
                cancel_transfers([one.move])
                self._task.tell(f"{one.made.tx} did not land, and cannot any more.")
                one.move.refresh_from_db()
                continue
            left += 1
            if not one.made.missing:
                refusals += [refusal for refusal in self._chain.send([one.made.raw]) if refusal is not None]
        refused = f" Nodes do not take one: {refusals[0]}" if refusals else ""
        return f"{left} of {len(under_way)} moves have to become final.{refused}" if left else ""

    def _resolve(self) -> str:
        """See what became of moves that an earlier run has begun: they landed, or expire."""
        searched, finality = self._search(), self._chain.find_finality()
        moves = list(find_open_transfers(self._task.caip2, self.escrow))
        if not moves:
            is_done = searched >= finality.block_number - self._chain.deposits_trail - _NEARLY_BLOCKS
            return "" if is_done else f"the history of {self.escrow} is searched up to block {searched} so far."
        cancel_transfers([move for move in moves if _is_over(move, finality, searched)])
        left = find_open_transfers(self._task.caip2, self.escrow).count()
        return f"{left} moves of an earlier run may still land." if left else ""


def _is_over(move: Withdrawal, finality: Finality, searched: int) -> bool:
    """Tell whether a move that has not landed never will: nothing was signed for it, or that is past everywhere."""
    if move.valid_until_height is None:
        return True
    last_height = move.valid_until_height + HEIGHT_MARGIN
    return finality.height > last_height and searched >= last_height + finality.skipped

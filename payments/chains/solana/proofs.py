"""What nodes testify of transactions, and what that proves. Pure.

Each answers as of its own state. So it says how far it is before it says where a transaction is: one that is behind, or
whose history does not go back so far, does not have what others have, and that says nothing.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from solders.transaction import VersionedTransaction

from payments.chains.base import Finality, Proof, Sought
from payments.chains.solana.answers import (
    FINALIZED,
    Status,
    read_context,
    read_count,
    read_statuses,
    statuses_calls,
)
from payments.chains.transport import Call

log = logging.getLogger(__name__)

UNKNOWN = Proof(is_paid=None, is_nonce_used=None, is_nonce_mined=None)
_PAID = Proof(is_paid=True, is_nonce_used=True, is_nonce_mined=True)
_FAILED = Proof(is_paid=False, is_nonce_used=True, is_nonce_mined=True)
_ABSENT = Proof(is_paid=None, is_nonce_used=False, is_nonce_mined=False)
GONE = Proof(is_paid=False, is_nonce_used=False, is_nonce_mined=False)
_POSITION_CALLS: tuple[Call, ...] = (
    ("getFirstAvailableBlock",),
    ("getBlockHeight", FINALIZED),
    ("getSlot", FINALIZED),
)
# Past the finalised block it is too old, or too new; at the newest it is not too new.
_COMMITMENTS = ("finalized", "processed")


@dataclass(frozen=True, slots=True)
class Testimony:
    """One node's: how far back its history goes, its final slot and the height there, what it says of transactions.

    `statuses` by id, each as of a slot; `usable`: the blockhashes that it still takes. None: it was not asked.
    """

    first: int
    height: int
    final: int
    usable: frozenset[str] | None
    statuses: dict[str, tuple[int, Status | None]]

    def tell(self, sought: Sought, finality: Finality) -> tuple[bool | None, int | None] | None:
        """Tell what became of a transaction: whether it was paid, and in which slot; (None, None): it is absent.

        None: this node cannot tell.
        """
        slot, status = self.statuses[sought.tx]
        if status is not None:
            return (status.error is None, status.slot) if status.is_final else None
        is_ahead = min(self.final, slot) >= finality.block_number
        is_kept = sought.valid_from_block is not None and self.first <= sought.valid_from_block
        return (None, None) if is_ahead and is_kept else None

    def is_over(self, sought: Sought) -> bool:
        """Tell whether no block can take a transaction any more."""
        is_past = sought.valid_until_height is not None and self.height > sought.valid_until_height
        return is_past and (self.usable is None or blockhash_of(sought) not in self.usable)


def testimony_calls(sought: Sequence[Sought], *, with_blockhashes: bool) -> list[Call]:
    """Make the questions for a testimony.

    The order matters: read after the statuses, the height could be past what landed in between.
    """
    checks = [
        ("isBlockhashValid", blockhash, {"commitment": commitment})
        for blockhash in (_blockhashes(sought) if with_blockhashes else ())
        for commitment in _COMMITMENTS
    ]
    return [*_POSITION_CALLS, *checks, *statuses_calls([one.tx for one in sought])]


def read_testimony(sought: Sequence[Sought], *, with_blockhashes: bool) -> Callable[[list[Any]], Testimony]:
    """Make a reader of what was answered to `testimony_calls`."""
    blockhashes = _blockhashes(sought) if with_blockhashes else []

    def read(answers: list[Any]) -> Testimony:
        first, height, final = map(read_count, answers[: len(_POSITION_CALLS)])
        rest = answers[len(_POSITION_CALLS) :]
        checks, statuses = rest[: len(_COMMITMENTS) * len(blockhashes)], rest[len(_COMMITMENTS) * len(blockhashes) :]
        usable = frozenset(
            blockhash
            for index, blockhash in enumerate(blockhashes)
            if any(map(_is_usable, checks[len(_COMMITMENTS) * index :][: len(_COMMITMENTS)]))
        )
        txs = [one.tx for one in sought]
        return Testimony(first, height, final, usable if with_blockhashes else None, read_statuses(statuses, txs))

    return read


def conclude(sought: Sought, heard: Sequence[Testimony], finality: Finality, quorum: int) -> Proof:
    """Conclude what all nodes say that can tell, at least `quorum`."""
    told = [(testimony, said) for testimony in heard if (said := testimony.tell(sought, finality)) is not None]
    if len({said for _, said in told}) > 1:
        log.error("Nodes contradict each other about %s: nothing is concluded", sought.tx)
        return UNKNOWN
    if not told or len(told) < quorum:
        return UNKNOWN
    _, (is_paid, _) = told[0]
    if is_paid is not None:
        return _PAID if is_paid else _FAILED
    return GONE if all(testimony.is_over(sought) for testimony, _ in told) else _ABSENT


def blockhash_of(sought: Sought) -> str:
    """Read which blockhash a transaction was signed with."""
    return str(VersionedTransaction.from_bytes(sought.raw).message.recent_blockhash)


def _blockhashes(sought: Sequence[Sought]) -> list[str]:
    return list(dict.fromkeys(map(blockhash_of, sought)))


def _is_usable(answer: Any) -> bool:
    _, is_valid = read_context(answer)
    if not isinstance(is_valid, bool):
        raise TypeError("neither yes nor no")
    return is_valid

"""What nodes testify of transactions, and what that proves. Pure.

Each answers as of its own state. So it says how far it is before it says where a transaction is: one that is behind, or
whose history does not go back so far or has a hole, does not have what others have, and that says nothing. All that it
answers must be as of its final slot or later: what does not is from another node behind the same address.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from solders.transaction import VersionedTransaction

from allowance.kernel.repeated_logs import log_once_a_minute
from chains.port import NOTHING_PROVEN, Finality, NonceProof, PaymentProof, Proof, TransactionQuery
from chains.rpc.transport import Call
from chains.solana.answers import (
    POSITION_CALL,
    Status,
    read_check,
    read_count,
    read_position,
    read_statuses,
    statuses_calls,
)
from chains.solana.blocks import BlockRange

log = logging.getLogger(__name__)

_PAID = Proof(PaymentProof.PAID, NonceProof.USED)
_FAILED = Proof(PaymentProof.UNPAID, NonceProof.USED)
_ABSENT = Proof(PaymentProof.UNKNOWN, NonceProof.UNUSED)
GONE = Proof(PaymentProof.UNPAID, NonceProof.UNUSED)
_REACH_CALLS: tuple[Call, ...] = (("getFirstAvailableBlock",), POSITION_CALL)
# Past the finalised block it is too old, or too new; at the newest it is not too new.
_COMMITMENTS = ("finalized", "processed")


@dataclass(frozen=True, slots=True)
class AbsenceEvidence:
    """What one node says once transactions seem to be gone: the blockhashes that it still takes, as of which slot.

    `whole`: of which stretches of the chain it has every block.
    """

    usable: frozenset[str]
    slot: int
    whole: frozenset[BlockRange]


@dataclass(frozen=True, slots=True)
class NodeEvidence:
    """One node's: how far back its history goes, its final slot and the height there, what it says of transactions.

    `statuses` by id, each as of a slot. `closing` is None if it was not asked for that.
    """

    first: int
    height: int
    final: int
    closing: AbsenceEvidence | None
    statuses: dict[str, tuple[int, Status | None]]

    def tell(self, sought: TransactionQuery, finality: Finality) -> tuple[bool | None, int | None] | None:
        """Tell what became of a transaction: whether it was paid, and in which slot; (None, None): it is absent.

        None: this node cannot tell.
        """
        slot, status = self.statuses[sought.tx]
        if status is not None:
            return (status.error is None, status.slot) if status.is_final else None
        answered = slot if self.closing is None else min(slot, self.closing.slot)
        is_ahead = answered >= self.final >= finality.block_number
        return (None, None) if is_ahead and self._keeps(sought) else None

    def is_over(self, sought: TransactionQuery) -> bool:
        """Tell whether no block can take a transaction any more."""
        is_past = sought.valid_until_height is not None and self.height > sought.valid_until_height
        return is_past and (self.closing is None or blockhash_of(sought) not in self.closing.usable)

    def _keeps(self, sought: TransactionQuery) -> bool:
        """Tell whether the node would have a transaction, if there were one."""
        if sought.valid_from_block is None or self.first > sought.valid_from_block:
            return False
        return self.closing is None or _block_range(sought) in self.closing.whole


def evidence_calls(sought: Sequence[TransactionQuery], *, is_closing: bool) -> list[Call]:
    """Make the questions for a testimony; `is_closing`: also for what is to be said of what seems to be gone.

    The order matters: read after the statuses, the height could be past what landed in between.
    """
    checks = [
        ("isBlockhashValid", blockhash, {"commitment": commitment})
        for blockhash in (_blockhashes(sought) if is_closing else ())
        for commitment in _COMMITMENTS
    ]
    return [*_REACH_CALLS, *checks, *statuses_calls([one.tx for one in sought])]


def read_evidence(
    sought: Sequence[TransactionQuery], whole: frozenset[BlockRange] | None = None
) -> Callable[[list[Any]], NodeEvidence]:
    """Make a reader of what was answered to `testimony_calls`; `whole` is None if it was not a closing one."""
    asked = [] if whole is None else [one for one in _blockhashes(sought) for _ in _COMMITMENTS]

    def read(answers: list[Any]) -> NodeEvidence:
        first, (final, height) = read_count(answers[0]), read_position(answers[1])
        checks, statuses = answers[len(_REACH_CALLS) :][: len(asked)], answers[len(_REACH_CALLS) + len(asked) :]
        closing = None if whole is None else _read_closing(asked, checks, whole)
        return NodeEvidence(first, height, final, closing, read_statuses(statuses, [one.tx for one in sought]))

    return read


def _read_closing(asked: Sequence[str], checks: Sequence[Any], whole: frozenset[BlockRange]) -> AbsenceEvidence:
    said = list(map(read_check, checks))
    usable = frozenset(blockhash for blockhash, (_, is_valid) in zip(asked, said, strict=True) if is_valid)
    return AbsenceEvidence(usable, min(slot for slot, _ in said), whole)


def conclude(
    sought: TransactionQuery, heard: Sequence[NodeEvidence], finality: Finality, quorum: int, chain: str
) -> Proof:
    """Conclude what all nodes of a chain say that can tell, at least `quorum`."""
    told = [(testimony, said) for testimony in heard if (said := testimony.tell(sought, finality)) is not None]
    if len({said for _, said in told}) > 1:
        log_once_a_minute(
            log, logging.ERROR, "%s: nodes contradict each other about %s; nothing is concluded", chain, sought.tx,
            about=chain,
        )  # fmt: skip
        return NOTHING_PROVEN
    if not told or len(told) < quorum:
        return NOTHING_PROVEN
    _, (is_paid, _) = told[0]
    if is_paid is not None:
        return _PAID if is_paid else _FAILED
    return GONE if all(testimony.is_over(sought) for testimony, _ in told) else _ABSENT


def blockhash_of(sought: TransactionQuery) -> str:
    """Read which blockhash a transaction was signed with."""
    return str(VersionedTransaction.from_bytes(sought.raw).message.recent_blockhash)


def block_ranges_of(sought: Sequence[TransactionQuery]) -> list[BlockRange]:
    """List in which stretches of the chain transactions could be."""
    return list(dict.fromkeys(stretch for one in sought if (stretch := _block_range(one)) is not None))


def _block_range(sought: TransactionQuery) -> BlockRange | None:
    if sought.valid_from_block is None or sought.valid_until_height is None:
        return None
    return sought.valid_from_block, sought.valid_until_height


def _blockhashes(sought: Sequence[TransactionQuery]) -> list[str]:
    return list(dict.fromkeys(map(blockhash_of, sought)))

"""The evidence that nodes give about transactions, and the conclusion that may be drawn from it. Pure.

Each node answers as of its own state. So it first reports its own position, then the statuses of transactions: if a
node is behind, or its history is too short or has a hole, a missing transaction proves nothing. All its answers must be
as of its final slot or later: an older one comes from another node at the same address.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from solders.transaction import VersionedTransaction

from chains.port import Finality, NonceFate, PaymentFate, TransactionQuery
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

# What becomes of all orders of a transaction together, and whether it is in a block.
Outcome = tuple[PaymentFate, NonceFate]
UNKNOWN: Outcome = (PaymentFate.UNKNOWN, NonceFate.UNKNOWN)
_PAID: Outcome = (PaymentFate.PAID, NonceFate.USED)
_FAILED: Outcome = (PaymentFate.UNPAID, NonceFate.USED)
_ABSENT: Outcome = (PaymentFate.UNKNOWN, NonceFate.UNUSED)
EXPIRED: Outcome = (PaymentFate.UNPAID, NonceFate.UNUSED)
_REACH_CALLS: tuple[Call, ...] = (("getFirstAvailableBlock",), POSITION_CALL)
# A blockhash that the finalised block rejects is too old, or too new; one that the newest rejects, too, is too old.
_COMMITMENTS = ("finalized", "processed")


@dataclass(frozen=True, slots=True)
class AbsenceEvidence:
    """One node's evidence that transactions have expired: the blockhashes that it still accepts, as of `slot`.

    `complete_ranges` are the block ranges of which it has every block.
    """

    usable: frozenset[str]
    slot: int
    complete_ranges: frozenset[BlockRange]


@dataclass(frozen=True, slots=True)
class NodeEvidence:
    """One node's evidence: the first slot of its history, its final slot and the height there, and statuses.

    `statuses` are by id, each as of a slot. `absence` is None if it was not asked for.
    """

    first: int
    height: int
    final: int
    absence: AbsenceEvidence | None
    statuses: dict[str, tuple[int, Status | None]]

    def find_outcome(self, query: TransactionQuery, finality: Finality) -> tuple[bool | None, int | None] | None:
        """Return the outcome of a transaction: whether it paid, and its slot; (None, None): it is absent.

        None: this node does not know the outcome.
        """
        slot, status = self.statuses[query.tx]
        if status is not None:
            return (status.error is None, status.slot) if status.is_final else None
        answered = slot if self.absence is None else min(slot, self.absence.slot)
        is_ahead = answered >= self.final >= finality.block_number
        return (None, None) if is_ahead and self._would_have(query) else None

    def has_expired(self, query: TransactionQuery) -> bool:
        """Return whether no block can include a transaction any more."""
        is_past = query.valid_until_height is not None and self.height > query.valid_until_height
        return is_past and (self.absence is None or blockhash_of(query) not in self.absence.usable)

    def _would_have(self, query: TransactionQuery) -> bool:
        """Return whether the node would have the transaction if a block included it."""
        if query.valid_from_block is None or self.first > query.valid_from_block:
            return False
        return self.absence is None or _block_range(query) in self.absence.complete_ranges


def evidence_calls(queries: Sequence[TransactionQuery], *, of_absence: bool) -> list[Call]:
    """Return the calls for a node's evidence; `of_absence`: including the evidence that transactions have expired.

    The order matters: a height that is read after the statuses could be above a block that includes one in between.
    """
    checks = [
        ("isBlockhashValid", blockhash, {"commitment": commitment})
        for blockhash in (_blockhashes(queries) if of_absence else ())
        for commitment in _COMMITMENTS
    ]
    return [*_REACH_CALLS, *checks, *statuses_calls([one.tx for one in queries])]


def read_evidence(
    queries: Sequence[TransactionQuery], complete_ranges: frozenset[BlockRange] | None = None
) -> Callable[[list[Any]], NodeEvidence]:
    """Return a reader of the answers to `evidence_calls`; `complete_ranges` is None for calls without absence."""
    asked = [] if complete_ranges is None else [one for one in _blockhashes(queries) for _ in _COMMITMENTS]

    def read(answers: list[Any]) -> NodeEvidence:
        first, (final, height) = read_count(answers[0]), read_position(answers[1])
        checks, statuses = answers[len(_REACH_CALLS) :][: len(asked)], answers[len(_REACH_CALLS) + len(asked) :]
        absence = None if complete_ranges is None else _read_absence(asked, checks, complete_ranges)
        return NodeEvidence(first, height, final, absence, read_statuses(statuses, [one.tx for one in queries]))

    return read


def _read_absence(
    asked: Sequence[str], checks: Sequence[Any], complete_ranges: frozenset[BlockRange]
) -> AbsenceEvidence:
    said = list(map(read_check, checks))
    usable = frozenset(blockhash for blockhash, (_, is_valid) in zip(asked, said, strict=True) if is_valid)
    return AbsenceEvidence(usable, min(slot for slot, _ in said), complete_ranges)


def conclude(
    query: TransactionQuery, agreed: tuple[bool | None, int | None], said: Sequence[NodeEvidence], *, is_unanimous: bool
) -> Outcome:
    """Conclude what the outcome proves on which nodes agree; `said` is the evidence of all that know an outcome.

    That it paid, most of them may say. All else may end a payment, or have it signed again, and all must say it.
    """
    is_paid, _ = agreed
    if is_paid:
        return _PAID
    if not is_unanimous:
        return UNKNOWN
    if is_paid is not None:
        return _FAILED
    return EXPIRED if all(one.has_expired(query) for one in said) else _ABSENT


def blockhash_of(query: TransactionQuery) -> str:
    """Read the blockhash that a transaction was signed with."""
    return str(VersionedTransaction.from_bytes(query.raw).message.recent_blockhash)


def block_ranges_of(queries: Sequence[TransactionQuery]) -> list[BlockRange]:
    """List the block ranges that could include transactions."""
    return list(dict.fromkeys(found for one in queries if (found := _block_range(one)) is not None))


def _block_range(query: TransactionQuery) -> BlockRange | None:
    if query.valid_from_block is None or query.valid_until_height is None:
        return None
    return query.valid_from_block, query.valid_until_height


def _blockhashes(queries: Sequence[TransactionQuery]) -> list[str]:
    return list(dict.fromkeys(map(blockhash_of, queries)))

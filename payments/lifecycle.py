"""The states of payments and settlements, and which may follow which. Pure. No other module decides this.

Unknown is never failed. Source: docs/interface-specification.md, "States and transitions"; docs/contract.md,
"Lifecycle"; docs/architecture.md, "One settlement's way".
"""

from datetime import datetime
from enum import StrEnum


class PaymentStatus(StrEnum):
    APPROVED = "approved"
    SETTLED = "settled"
    FAILED = "failed"


class HeldStatus(StrEnum):
    """What a payment is that is not approved: a person has to approve it, has declined it, or has let it expire."""

    PENDING_APPROVAL = "pending_approval"
    DECLINED = "declined"
    EXPIRED = "expired"


def end_of_hold(at: datetime, expires_at: datetime, *, is_answered: bool) -> HeldStatus:
    """Tell what a payment is that was held and was refused at a moment; `is_answered`: a person has answered it."""
    return HeldStatus.EXPIRED if not is_answered and at >= expires_at else HeldStatus.DECLINED


class SettlementState(StrEnum):
    """What is known of a transaction. No state is ever concluded from a missing answer.

    `signed`: committed; no node has accepted it yet. `broadcast`: a node accepted it. `included`: seen in a block.
    `replaced`: another transaction has its nonce; should this one be included all the same, that counts.
    `final`: in a final block, and it did what it was made for. `failed`: it never will, which the chain proves.
    `expired`: as failed, because its deadline has passed; its payment may get another transaction.
    """

    SIGNED = "signed"
    BROADCAST = "broadcast"
    INCLUDED = "included"
    FINAL = "final"
    REPLACED = "replaced"
    EXPIRED = "expired"
    FAILED = "failed"


_S = SettlementState
OPEN_STATES = (_S.SIGNED, _S.BROADCAST, _S.INCLUDED)
# One of these per payment and per nonce at most.
LIVE_STATES = (*OPEN_STATES, _S.FINAL)
ENDS = (_S.FINAL, _S.REPLACED, _S.EXPIRED, _S.FAILED)
# What may cost gas, or has. A replaced transaction is counted by the one in its place; an expired one costs nothing.
COUNTED_AT_MOST = (*OPEN_STATES, _S.FINAL, _S.FAILED)

_FOLLOWERS: dict[SettlementState, frozenset[SettlementState]] = {
    # A transaction whose sending was never recorded may be on chain all the same: every end may follow.
    _S.SIGNED: frozenset({_S.BROADCAST, _S.INCLUDED}) | frozenset(ENDS),
    _S.BROADCAST: frozenset({_S.INCLUDED}) | frozenset(ENDS),
    # Back to broadcast: its block was reorganised away, and the same bytes are sent again.
    _S.INCLUDED: frozenset({_S.BROADCAST}) | frozenset(ENDS),
    # It was included before the one that was to replace it.
    _S.REPLACED: frozenset({_S.INCLUDED, _S.FINAL, _S.FAILED}),
    _S.FINAL: frozenset(),
    # It was included, although all nodes had said that it could not be.
    _S.EXPIRED: frozenset({_S.FINAL}),
    _S.FAILED: frozenset(),
}


def may_follow(old: SettlementState, new: SettlementState) -> bool:
    """Tell whether a settlement may go from one state to another."""
    return new in _FOLLOWERS[old]

"""The states of payments and settlements, and which may follow which. Pure; the one place that says so.

Source: docs/interface-specification.md, "States and transitions"; docs/contract.md, "Lifecycle";
docs/architecture.md, "One settlement's way". Unknown is never failed.
"""

from enum import StrEnum


class PaymentStatus(StrEnum):
    APPROVED = "approved"
    SETTLED = "settled"
    FAILED = "failed"


class SettlementState(StrEnum):
    """What is known of a transaction. None of these is ever concluded from a missing answer.

    `signed`: committed; no node has said that it took it. `broadcast`: a node took it. `included`: seen in a block.
    `replaced`: another with its nonce stands in its place; should it land all the same, then that counts.
    `final`: in a final block, and it did what it was made for. `failed`: it never will, which the chain proves.
    `expired`: like failed, because its deadline passed; its payment may get another then.
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
ENDS = (_S.FINAL, _S.REPLACED, _S.EXPIRED, _S.FAILED)
# What may cost gas money, or has: another stands in the place of what was replaced, and what expired never lands.
COUNTED_AT_MOST = (*OPEN_STATES, _S.FINAL, _S.FAILED)

_FOLLOWERS: dict[SettlementState, frozenset[SettlementState]] = {
    # A transaction whose sending was never recorded can be found on chain all the same: every end may follow.
    _S.SIGNED: frozenset({_S.BROADCAST, _S.INCLUDED}) | frozenset(ENDS),
    _S.BROADCAST: frozenset({_S.INCLUDED}) | frozenset(ENDS),
    # Back: its block was reorganised away, and the same bytes are offered again.
    _S.INCLUDED: frozenset({_S.BROADCAST}) | frozenset(ENDS),
    # It landed before the one that was to replace it.
    _S.REPLACED: frozenset({_S.INCLUDED, _S.FINAL, _S.FAILED}),
    _S.FINAL: frozenset(),
    # It landed, although all nodes had said that it could not.
    _S.EXPIRED: frozenset({_S.FINAL}),
    _S.FAILED: frozenset(),
}


def may_follow(old: SettlementState, new: SettlementState) -> bool:
    """Tell whether a settlement may go from one state to another."""
    return new in _FOLLOWERS[old]

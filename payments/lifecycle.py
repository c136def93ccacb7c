"""The states of payments and settlements, and which may follow which. Pure; the one place that says so.

Source: specification and contract.md, "Lifecycle"; design.md, "Settlement". Unknown is never failed.
"""

from enum import StrEnum


class PaymentStatus(StrEnum):
    APPROVED = "approved"
    SETTLED = "settled"
    FAILED = "failed"


class SettlementState(StrEnum):
    """`signed`: committed, perhaps not sent. `broadcast`: a node took it. `included`: in a block. The rest are ends."""

    SIGNED = "signed"
    BROADCAST = "broadcast"
    INCLUDED = "included"
    FINAL = "final"
    REPLACED = "replaced"
    EXPIRED = "expired"
    FAILED = "failed"


OPEN_STATES = (SettlementState.SIGNED, SettlementState.BROADCAST, SettlementState.INCLUDED)

_FOLLOWERS: dict[SettlementState, frozenset[SettlementState]] = {
    SettlementState.SIGNED: frozenset(
        {
            SettlementState.BROADCAST,
            # A transaction whose sending was never recorded can be found on chain all the same.
            SettlementState.INCLUDED,
            SettlementState.FINAL,
            SettlementState.FAILED,
            SettlementState.REPLACED,
            SettlementState.EXPIRED,
        }
    ),
    SettlementState.BROADCAST: frozenset(
        {
            SettlementState.INCLUDED,
            SettlementState.FINAL,
            SettlementState.FAILED,
            SettlementState.REPLACED,
            SettlementState.EXPIRED,
        }
    ),
    SettlementState.INCLUDED: frozenset(
        {SettlementState.FINAL, SettlementState.FAILED, SettlementState.BROADCAST}  # back: a reorganisation
    ),
    SettlementState.FINAL: frozenset(),
    SettlementState.REPLACED: frozenset(),
    SettlementState.EXPIRED: frozenset(),
    SettlementState.FAILED: frozenset(),
}


def may_follow(old: SettlementState, new: SettlementState) -> bool:
    """Tell whether a settlement may go from one state to another."""
    return new in _FOLLOWERS[old]

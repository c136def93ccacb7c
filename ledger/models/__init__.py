"""The log of decisions, what is held for a person, balances, and what is counted from them."""

from ledger.models.balances import BalanceMovement, MovementKind
from ledger.models.clocks import ClockRepair
from ledger.models.holds import Hold, HoldAnswer
from ledger.models.levels import LevelPayment
from ledger.models.log import LogEntry, Result
from ledger.models.tallies import Tally, TallyMark

__all__ = (
    "BalanceMovement",
    "ClockRepair",
    "Hold",
    "HoldAnswer",
    "LevelPayment",
    "LogEntry",
    "MovementKind",
    "Result",
    "Tally",
    "TallyMark",
)

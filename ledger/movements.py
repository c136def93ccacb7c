"""Find movements of balances."""

from datetime import datetime, timedelta

from foundation.groups import for_agent
from foundation.kernel.ids import first_id
from ledger.models import BalanceMovement, LogEntry, MovementKind, Result

# Movements whose transactions overlap may be numbered in another order than that of their times, by less than this.
_NEAR = timedelta(minutes=10)


@for_agent
def find_newest_by_hand(agent_id: str) -> int:
    """Find the id of the newest movement of an agent's balance by hand; 0: there is none."""
    by_hand = BalanceMovement.objects.filter(
        agent_id=agent_id, kind__in=(MovementKind.WITHDRAWAL, MovementKind.ADJUSTMENT)
    )
    return by_hand.order_by("-id").values_list("id", flat=True).first() or 0


def find_movement_near(moment: datetime, *, forward: bool) -> int | None:
    """Find the number of a movement some minutes before a moment, or behind it; None: there is none.

    Movements have no index of time, but numbers in its order, and payments are found by both.
    """
    approved = LogEntry.objects.filter(result=Result.APPROVED)
    if forward:
        entries = approved.filter(pk__gte=first_id("log", moment + _NEAR)).order_by("pk")
    else:
        entries = approved.filter(pk__lt=first_id("log", moment - _NEAR)).order_by("-pk")
    paid = entries.values_list("payment_id", flat=True).first()
    movements = BalanceMovement.objects.filter(payment_id=paid, kind=MovementKind.PAYMENT)
    return movements.values_list("pk", flat=True).first() if paid else None

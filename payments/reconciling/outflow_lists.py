"""Book many outflows at once, as after a restored backup: first decide what is booked as whose, then book each once.

Each is booked by itself, as `outflow_booking` does, so a run that was interrupted is begun again and goes on.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import EXACT, format_amount
from payments.models import Outflow
from payments.reconciling.outflow_booking import MAX_NOTE_LENGTH, book_outflow
from payments.reconciling.outflow_owners import UNKNOWN, Owner, Owners
from policy.models import Agent

log = logging.getLogger(__name__)

MOVED_NOTHING = Owner("", "the chain: it moved nothing", is_proven=True)
_ROOM_FOR_PLACE = 150


@dataclass(frozen=True, slots=True)
class Booking:
    """An outflow, and whose money it is to be booked as."""

    outflow: Outflow
    owner: Owner


@dataclass(slots=True)
class Plan:
    """What is to be booked, and of the rest why it is not, each in a sentence."""

    bookings: list[Booking] = field(default_factory=list)
    left: list[tuple[Outflow, str]] = field(default_factory=list)


def plan_bookings(
    outflows: Sequence[Outflow], owners: Owners, *, rest: Owner | None, asked_for: frozenset[int] = frozenset()
) -> Plan:
    """Decide what can be booked. `rest`: what all are of which nothing says whose they were; None: they stay open.

    `asked_for`: ids of outflows of which somebody in the console has said what they are, and a second person has not
    confirmed it yet.
    """
    plan, purses = Plan(), _Purses()
    for one in outflows:
        owner = MOVED_NOTHING if not one.amount else owners.find(one)
        if owner == UNKNOWN and rest is not None:
            owner = rest
        if isinstance(owner, Owner) and one.pk in asked_for:
            owner = "In the console it waits for a second person: confirm or refuse it there."
        why = owner if isinstance(owner, str) else purses.take(owner.agent_id, one)
        if isinstance(owner, str) or why:
            plan.left.append((one, why))
        else:
            plan.bookings.append(Booking(one, owner))
    return plan


def book(plan: Plan, *, by: str, reason: str, tell: Callable[[int], None]) -> list[tuple[Outflow, str]]:
    """Book what is planned, one after the other; returns what was refused meanwhile, and why.

    `tell` is given how many are done. Where it stands whose each was is kept beside the reason.

    Raises:
        OperationRefused: the reason is empty or too long; nothing is booked.
    """
    if not 1 <= len(reason.strip()) <= MAX_NOTE_LENGTH - _ROOM_FOR_PLACE:
        raise OperationRefused(f"Give a reason of 1 to {MAX_NOTE_LENGTH - _ROOM_FOR_PLACE} characters.")
    refused = []
    for done, one in enumerate(plan.bookings, 1):
        note = f"{reason} (by {one.owner.place})"[:MAX_NOTE_LENGTH]
        try:
            book_outflow(one.outflow.pk, by=by, reason=note, agent_id=one.owner.agent_id or None, is_one_of_many=True)
        except OperationRefused as error:
            refused.append((one.outflow, str(error)))
        tell(done)
    log.warning("%d outflows are booked: %s", len(plan.bookings) - len(refused), reason)
    return refused


class _Purses:
    """The agents' balances, of which what is planned is taken: together it must be covered."""

    def __init__(self) -> None:
        self._agents: dict[str, Agent | None] = {}
        self._left: dict[str, Decimal] = {}

    def take(self, agent_id: str, one: Outflow) -> str:
        """Take an outflow from an agent's balance; returns why that is not possible, "" if it is."""
        if not agent_id:
            return ""
        if agent_id not in self._agents:
            found = self._agents[agent_id] = Agent.objects.filter(pk=agent_id).first()
            self._left[agent_id] = found.balance if found is not None else Decimal(0)
        agent = self._agents[agent_id]
        if agent is None:
            return f"There is no agent {agent_id}: make it anew, if the backup has forgotten it."
        if agent.asset != one.asset:
            return f"The allowance of {agent_id} is in {agent.asset}."
        left = EXACT.subtract(self._left[agent_id], one.amount)
        if left < 0:
            balance = f"The balance of {agent_id}, {format_amount(agent.balance)} {agent.asset}"
            return f"{balance}, does not cover it: credit anew what the backup has forgotten."
        self._left[agent_id] = left
        return ""

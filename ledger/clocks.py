"""Clocks that have to agree before anything is dated, and the repair of an agent whose log ran ahead of them.

A moment that was written down stays: one decision at a time far ahead would date all later ones as far. So nothing is
decided by clocks that disagree, and an agent that is ahead waits for people.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db import connection, transaction
from django.db.models import QuerySet

from allowance.kernel.errors import OperationRefused
from allowance.kernel.repeated_logs import log_once_a_minute
from allowance.kernel.times import LARGEST_SKEW, to_milliseconds, utc_now
from ledger.models import ClockRepair, LogEntry
from policy.models import Agent
from policy.operations import lock_agent

log = logging.getLogger(__name__)

MAX_REASON_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Reading:
    """What the database's clock said, between two looks at this process's own: however long the question took."""

    before: datetime
    database: datetime
    after: datetime

    @property
    def skew(self) -> timedelta:
        """How far the database's clock is ahead of this process's, at least; negative: behind."""
        if self.database > self.after:
            return self.database - self.after
        return min(self.database - self.before, timedelta(0))


def trust(reading: Reading) -> bool:
    """Tell whether the database's clock and this process's agree; says so in the log if not."""
    if abs(reading.skew) <= LARGEST_SKEW:
        return True
    log_once_a_minute(
        log,
        logging.ERROR,
        "The database's clock is %s s ahead of this process's: nothing is done here until they agree",
        reading.skew.total_seconds(),
    )
    return False


def read_clocks() -> Reading:
    """Compare the database's clock with this process's."""
    before = utc_now()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        database: datetime = cursor.fetchone()[0]
    return Reading(before, to_milliseconds(database), utc_now())


def find_ahead(now: datetime) -> QuerySet[Agent]:
    """Find the agents whose last log entry is in the future: their payments are answered with 503."""
    return Agent.objects.filter(last_entry_at__gt=now + LARGEST_SKEW).order_by("id")


def repair_clock(agent_id: str, *, by: str, reason: str) -> ClockRepair:
    """Let an agent go on at the present time although its last entry is in the future; the repair is on record.

    The entries stay, and what was spent in them counts in every window until its moment has come and left it.

    Raises:
        OperationRefused: no such agent, no author or reason, clocks that disagree, no entry in the future, or an agent
            whose record of its last entry was changed.
    """
    if not by.strip() or not reason.strip() or len(reason) > MAX_REASON_LENGTH:
        raise OperationRefused(f"Say who repairs it, and why in at most {MAX_REASON_LENGTH} characters.")
    with transaction.atomic():
        agent = lock_agent(agent_id)
        reading = read_clocks()
        if not trust(reading):
            raise OperationRefused("The database's clock and this process's disagree: repair them first.")
        now, head_at = reading.database, agent.last_entry_at
        if head_at is None or head_at <= now + LARGEST_SKEW:
            raise OperationRefused(f"The last entry of {agent_id} is not in the future.")
        number = ClockRepair.objects.filter(agent=agent).count() + 1
        if _find_head(agent, number) != (agent.last_entry_id, agent.last_entry_hash, head_at, agent.spent_total):
            raise OperationRefused(
                f"What {agent_id} keeps of its last entry is neither its newest entry nor its last repair: somebody "
                "changed it. Nothing is repaired by it; see verify_log."
            )
        repair = ClockRepair.objects.create(
            agent=agent,
            number=number,
            head_id=agent.last_entry_id,
            head_hash=agent.last_entry_hash,
            head_at=head_at,
            spent_total=agent.spent_total,
            spent_before=find_total_at(agent, number - 1, now),
            author=by,
            reason=reason,
            repaired_at=now,
        )
        agent.last_entry_at = now
        agent.save(update_fields=["last_entry_at"])
    log.warning("The clock of %s is repaired by %s: its last entry is of %s. %s", agent_id, by, head_at, reason)
    return repair


def find_wrong_repairs(agent: Agent) -> Iterator[str]:
    """Compare an agent's repairs with the log that they are about; says in sentences what does not fit."""
    repairs = ClockRepair.objects.filter(agent=agent).order_by("number")
    if LogEntry.objects.filter(agent=agent, clock_repairs__gt=len(repairs)).exists():
        yield "An entry comes after a clock repair that is not on record."
    for number, repair in enumerate(repairs, start=1):
        said = repair.head_id, repair.head_hash, repair.head_at, repair.spent_total
        if repair.number != number or said != _find_head(agent, number):
            yield f"The clock repair {number} is not of the entry that was the newest then."
        if repair.head_at <= repair.repaired_at:
            yield f"The clock repair {number} is of an entry that was not in the future."
        if repair.spent_before != find_total_at(agent, number - 1, repair.repaired_at):
            yield f"The clock repair {number} does not count what was spent in the future."
        later = LogEntry.objects.filter(agent=agent, clock_repairs=number, created_at__lt=repair.repaired_at)
        if later.exists():
            yield f"After the clock repair {number} there is an entry that is dated before it."


def _find_head(agent: Agent, number: int) -> tuple[str, str, datetime, Decimal] | None:
    """Find what a repair of this number is of, as id, hash, moment and total: the newest entry, or the repair before.

    An agent may be repaired again before it has decided anything: by a clock that was still ahead.
    """
    stretch = LogEntry.objects.filter(agent=agent, clock_repairs=number - 1 or None).order_by("created_at", "id")
    if (entry := stretch.last()) is not None:
        return entry.id, entry.hash, entry.created_at, entry.spent_total
    before = ClockRepair.objects.filter(agent=agent, number=number - 1).first()
    return None if before is None else (before.head_id, before.head_hash, before.repaired_at, before.spent_total)


def find_total_at(agent: Agent, number: int, moment: datetime) -> Decimal:
    """Read what an agent had spent up to a moment by the entries since its repair of this number (0: none)."""
    before = ClockRepair.objects.filter(agent=agent, number=number).values_list("spent_total", flat=True).first()
    entries = LogEntry.objects.filter(agent=agent, clock_repairs=number or None, created_at__lte=moment)
    total = entries.order_by("-created_at", "-id").values_list("spent_total", flat=True).first()
    return next(known for known in (total, before, Decimal(0)) if known is not None)

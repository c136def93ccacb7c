"""Check that clocks agree before anything is dated, and repair agents whose log is dated in the future.

A recorded moment stays: after one decision that is dated far ahead, all later ones would be dated as far ahead. So
nothing is decided while clocks disagree, and an agent whose log is ahead waits until a person repairs it.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db import connection, transaction
from django.db.models import QuerySet

from foundation.database import fetch_rows
from foundation.groups import for_agent
from foundation.kernel.errors import OperationRefused
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.times import LARGEST_SKEW, format_instant, to_milliseconds, utc_now
from ledger.models import ClockRepair, LogEntry
from policy.models import Agent
from policy.parents import find_below, lock_agents
from staff.audit import record
from staff.models import AuditEntry

log = logging.getLogger(__name__)

MAX_REASON_LENGTH = 500
_REPAIRED = "agent.clock_repaired"
_LONGEST_REPAIR = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Reading:
    """The database's clock, between two readings of this process's own clock, however long the query took."""

    before: datetime
    database: datetime
    after: datetime

    @property
    def skew(self) -> timedelta:
        """By how much the database's clock is ahead of this process's, at least; negative: behind."""
        if self.database > self.after:
            return self.database - self.after
        return min(self.database - self.before, timedelta(0))


def clocks_agree(reading: Reading) -> bool:
    """Tell whether the database's clock and this process's agree; logs an error if not."""
    if abs(reading.skew) <= LARGEST_SKEW:
        return True
    log_once_a_minute(
        log,
        logging.ERROR,
        "The database's clock is %s s ahead of this process's: this process does nothing until they agree",
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


@for_agent
def find_waiting(agent_id: str, now: datetime) -> list[str]:
    """Find the other agents whose payments are answered with 503 because this one is ahead.

    They are all below it, and all who share a budget in which it has paid in the future, even if it has left that.
    """
    levels = {agent_id, *_find_levels_ahead(agent_id, now)}
    return sorted(levels.union(agent.pk for level in levels for agent in find_below(level)) - {agent_id})


def _find_levels_ahead(agent_id: str, now: datetime) -> list[str]:
    return list(fetch_rows("SELECT ledger_levels_ahead(%(agent)s, %(now)s)", {"agent": agent_id, "now": now})[0][0])


@for_agent
def repair_clock(agent_id: str, *, by: str, reason: str) -> ClockRepair:
    """Let an agent go on at the present time although its last entry is in the future; the repair is recorded.

    The entries stay. What was spent in them counts in every window until the moment they are dated with has left it.

    Raises:
        OperationRefused: no such agent, no author or reason, clocks that disagree, no entry in the future, or an agent
            whose record of its last entry was changed.
    """
    if not by.strip() or not reason.strip() or len(reason) > MAX_REASON_LENGTH:
        raise OperationRefused(f"Give the author and a reason of at most {MAX_REASON_LENGTH} characters.")
    with transaction.atomic():
        agent = _lock_to_repair(agent_id)
        reading = read_clocks()
        if not clocks_agree(reading):
            raise OperationRefused("The database's clock and this process's disagree: repair them first.")
        now, head_at = reading.database, agent.last_entry_at
        if head_at is None or head_at <= now + LARGEST_SKEW:
            raise OperationRefused(f"The last entry of {agent_id} is not in the future.")
        number = ClockRepair.objects.filter(agent=agent).count() + 1
        if _find_head(agent, number) != (agent.last_entry_id, agent.last_entry_hash, head_at, agent.spent_total):
            raise OperationRefused(
                f"The record that {agent_id} has of its last entry is neither its newest entry nor its last repair: "
                "somebody changed it. It is not repaired; see verify_log."
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
        record(
            _REPAIRED,
            subject_type="agent",
            subject=agent.id,
            by=by,
            reason=reason,
            before={"lastEntryAt": head_at},
            after={"lastEntryAt": now},
            now=now,
        )
    log.warning("The clock of %s is repaired by %s: its last entry is of %s. %s", agent_id, by, head_at, reason)
    return repair


def _lock_to_repair(agent_id: str) -> Agent:
    """Lock an agent and all at which its payments are counted in the future: their rows are changed."""
    agent = lock_agents([agent_id, *_find_levels_ahead(agent_id, utc_now() - LARGEST_SKEW)]).get(agent_id)
    if agent is None:
        raise OperationRefused(f"There is no agent {agent_id}.")
    return agent


def find_wrong_repairs(agent: Agent) -> Iterator[str]:
    """Compare an agent's repairs with the log that they are about; yields a sentence for each contradiction."""
    repairs = ClockRepair.objects.filter(agent=agent).order_by("number")
    if LogEntry.objects.filter(agent=agent, clock_repairs__gt=len(repairs)).exists():
        yield "An entry comes after a clock repair that is not on record."
    for number, repair in enumerate(repairs, start=1):
        head = repair.head_id, repair.head_hash, repair.head_at, repair.spent_total
        if repair.number != number or head != _find_head(agent, number):
            yield f"The clock repair {number} is not of the entry that was the newest then."
        if repair.head_at <= repair.repaired_at:
            yield f"The clock repair {number} is of an entry that was not in the future."
        if repair.spent_before != find_total_at(agent, number - 1, repair.repaired_at):
            yield f"The clock repair {number} does not count what was spent in the future."
        later = LogEntry.objects.filter(agent=agent, clock_repairs=number, created_at__lt=repair.repaired_at)
        if later.exists():
            yield f"After the clock repair {number} there is an entry that is dated before it."
        yield from _find_unrecorded(repair)


def _find_unrecorded(repair: ClockRepair) -> Iterator[str]:
    """Compare a repair with its entry in the audit; releases until 0.3 dated that by the process's own clock."""
    audit = AuditEntry.objects.filter(subject=repair.agent_id, subject_type="agent", action=_REPAIRED)
    said = audit.filter(author=repair.author, reason=repair.reason)
    entry = said.filter(after={"lastEntryAt": format_instant(repair.repaired_at)}).first()
    if entry is None:
        yield f"The clock repair {repair.number} is not in the audit."
    elif abs(entry.at - repair.repaired_at) > LARGEST_SKEW + _LONGEST_REPAIR:
        yield f"The clock repair {repair.number} is of another moment than its entry in the audit was made."


def _find_head(agent: Agent, number: int) -> tuple[str, str, datetime, Decimal] | None:
    """Find the head that a repair of this number is of (id, hash, moment, total): the newest entry or the last repair.

    An agent may be repaired a second time before it has another entry: the clock of the first repair was still ahead.
    """
    entries = LogEntry.objects.filter(agent=agent, clock_repairs=number - 1 or None).order_by("created_at", "id")
    if (entry := entries.last()) is not None:
        return entry.id, entry.hash, entry.created_at, entry.spent_total
    before = ClockRepair.objects.filter(agent=agent, number=number - 1).first()
    return None if before is None else (before.head_id, before.head_hash, before.repaired_at, before.spent_total)


def find_total_at(agent: Agent, number: int, moment: datetime) -> Decimal:
    """Read what an agent had spent up to a moment by the entries since its repair of this number (0: none)."""
    before = ClockRepair.objects.filter(agent=agent, number=number).values_list("spent_total", flat=True).first()
    entries = LogEntry.objects.filter(agent=agent, clock_repairs=number or None, created_at__lte=moment)
    total = entries.order_by("-created_at", "-id").values_list("spent_total", flat=True).first()
    return next(known for known in (total, before, Decimal(0)) if known is not None)

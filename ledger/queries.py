"""Read the ledger: windows, budgets, pages of the log."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection

from foundation.database import fetch_briefly, in_batches, reading_alias
from foundation.groups import find_in_groups, for_agent, read_of, read_of_agents
from foundation.kernel.ids import time_of
from ledger.models import ClockRepair, LogEntry
from policy.models import Agent
from policy.more_limits import MoreLimits, given, read_more
from policy.rule import Figure, Wait

_BUDGETS = "SELECT * FROM ledger_budgets_4(%s::text[])"
_WITH_LEVELS = """
    SELECT budget.* FROM policy_agent a, ledger_budgets_4(a.ancestors::text[] || a.id::text) budget WHERE a.id = %s
"""
# The optional limits of which the database counts what is used, in the order of the function `ledger_counted_by`.
COUNTED = ("hourly_limit", "monthly_limit", "total_limit", "payments_per_hour", "payments_per_day")


@dataclass(frozen=True, slots=True)
class Budget:
    """An agent's allowance and limits as of one moment: amounts in units of its asset.

    What waits for a person's approval counts as spent; `held` is how much that is, how many payments, and how much of
    it is the agent's own. But for the balance, all is with what those below the agent pay; `paid_this_week` is what it
    has paid itself. `ancestors`: all above it, root first.
    """

    agent_id: str
    status: str
    asset: str
    balance: Decimal
    spent_today: Decimal
    spent_this_week: Decimal
    daily_limit: Decimal
    weekly_limit: Decimal
    max_per_payment: Decimal
    policy_revision: int
    more_json: str | None = None
    counted: list[Decimal | None] | None = None
    held: tuple[Decimal, Decimal, Decimal] = (Decimal(0), Decimal(0), Decimal(0))
    ancestors: list[str] | None = None
    paid_this_week: Decimal = Decimal(0)

    @property
    def more(self) -> MoreLimits:
        """Read the optional limits; raises OperationRefused if only a later release knows one."""
        return read_more(self.more_json)

    def used(self) -> dict[str, Figure | None]:
        """Tell what is used of each optional limit that there is; None: it cannot be counted at present."""
        counted = dict(zip(COUNTED, self.counted or (), strict=False))
        held, payments, _ = self.held
        limits = [part for part, _ in given(self.more) if part.field in COUNTED]
        found = ((part, counted.get(part.field)) for part in limits)
        return {
            part.field: None if used is None else used + held if part.kind.is_amount else int(used + payments)
            for part, used in found
        }


@dataclass(frozen=True, slots=True)
class ShownEntry:
    """An entry of the log as it is shown: `text` is its receipt (`ledger.receipts.receipt`) in JSON."""

    id: str
    agent_id: str
    text: str


# The members of a receipt, in order, as PostgreSQL finds them: it writes a page's JSON in a fifth of Python's time.
_MEMBERS = {
    "id": "id",
    "agentId": "agent_id",
    "service": "service",
    "amount": "amount",
    "asset": "asset",
    "result": "result",
    "rule": "rule",
    "createdAt": """to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')""",
    "reason": "reason",
    "metadata": "metadata_json::json",
    "policyRevision": "'polrev_' || policy_revision",
    "paymentId": "payment_id",
    "tx": "tx",
    "explanation": "explanation_json::json",
    "hash": "hash",
    "previousHash": "previous_hash",
    "signature": "signature",
    "keyId": "key_id",
}
_RECEIPT = ", ".join(f'{expression} AS "{member}"' for member, expression in _MEMBERS.items())
_SHOWN = f"""
    SELECT id, agent_id, (SELECT row_to_json(shown)::text FROM (SELECT {_RECEIPT}) shown) FROM ledger_logentry
"""  # noqa: S608 - our own names
_ENTRY_ID = re.compile(r"log_[0-9a-z]{26}", re.ASCII)


def find_budget(agent_id: str) -> Budget | None:
    """Read an agent's balance, windows and limits as of one moment; None: no such agent."""
    return find_budgets([agent_id]).get(agent_id)


@for_agent
def find_budget_with_levels(agent_id: str) -> tuple[Budget, list[Budget]] | None:
    """Read an agent's budget and those of all above it, the parent first, as of one moment; None: no such agent."""
    found = {row[0]: Budget(*row) for row in fetch_briefly(_WITH_LEVELS, [agent_id])}
    budget = found.get(agent_id)
    return None if budget is None else (budget, [found[level] for level in reversed(budget.ancestors or ())])


def find_budgets(agent_ids: Sequence[str]) -> dict[str, Budget]:
    """Read the budgets of some agents, a page of them at most, by id; an agent that does not exist has none."""
    rows = read_of_agents(agent_ids, lambda ids: fetch_briefly(_BUDGETS, [ids]))
    return {row[0]: Budget(*row) for row in rows}


@for_agent
def find_fitting_moment(agent_id: str, payee: str, total: Decimal, now: datetime, wait: Wait) -> datetime:
    """Find the first moment at which what a limit of the agent waits for has come to pass, if it pays nothing more.

    `total`: all until now of what is measured, at the `payee` or in all.
    """
    asked = [agent_id, wait.measure.value, payee, total, now, wait.window, wait.most_spent]
    with connection.cursor() as cursor:
        cursor.execute("SELECT ledger_fits_at_3(%s, %s, %s, %s, %s, %s, %s)", asked)  # type: ignore[arg-type]
        moment: datetime = cursor.fetchone()[0]
    return moment


def read_log_page(
    *, agent_id: str | None, result: str | None, key: str | None = None, before_id: str | None, size: int
) -> tuple[list[ShownEntry], bool]:
    """Read up to `size` entries, newest first, older than the entry `before_id`; tell whether there are more.

    `key` is an idempotency key of the agent.
    """
    statement, parameters = log_page(agent_id=agent_id, result=result, key=key, before_id=before_id, size=size + 1)
    page = [ShownEntry(*row) for row in read_of(agent_id, lambda: fetch_briefly(statement, parameters))]
    page.sort(key=attrgetter("id"), reverse=True)
    return page[:size], len(page) > size


def log_page(
    *, agent_id: str | None, result: str | None, key: str | None = None, before_id: str | None, size: int
) -> tuple[str, list[Any]]:
    """Write the statement of a page; each combination of filters has an index that begins where the page does.

    Entries sort by id, which is their order in time. Within one agent, the index needs the time as well.
    """
    conditions: dict[str, Any] = {} if result is None else {"result = %s": result}
    if key is not None:
        conditions["idempotency_key = %s"] = key
    order = "id DESC"
    if before_id is not None:
        conditions["id < %s"] = before_id
    if agent_id is not None:
        order = "created_at DESC, id DESC"
        conditions["agent_id = %s"] = agent_id
        if before_id is not None:
            conditions["created_at <= %s"] = time_of(before_id)
    where = " AND ".join(conditions) or "true"
    return f"{_SHOWN} WHERE {where} ORDER BY {order} LIMIT %s", [*conditions.values(), size]


def find_shown_entry(entry_id: str) -> ShownEntry | None:
    """Read one entry of the log as it is shown; None: there is none of this id."""
    if not _ENTRY_ID.fullmatch(entry_id):
        return None
    rows = find_in_groups(lambda: fetch_briefly(f"{_SHOWN} WHERE id = %s", [entry_id]) or None)
    return ShownEntry(*rows[0]) if rows else None


def read_chain(agent: Agent) -> Iterator[LogEntry]:
    """Read an agent's log in the order of its hash chain; entries that name an unknown clock repair come last."""
    entries = LogEntry.objects.filter(agent=agent)
    numbers = list(ClockRepair.objects.filter(agent=agent).values_list("number", flat=True))
    for number in (None, *numbers):
        yield from in_batches(entries.filter(clock_repairs=number), "created_at")
    forged = entries.filter(clock_repairs__isnull=False).exclude(clock_repairs__in=numbers)
    yield from in_batches(forged, "created_at")


def has_come_to(entry_id: str) -> bool:
    """Tell whether an entry is known where this thread reads: a replica may be behind what a page has shown."""
    return reading_alias() == DEFAULT_DB_ALIAS or LogEntry.objects.filter(pk=entry_id).exists()

"""How much of their limits agents have spent, and how long their balances last: of all agents at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from foundation.database import fetch_briefly
from foundation.kernel.money import EXACT

NEAR_A_LIMIT = Decimal("0.8")
RUNS_DRY_WITHIN_DAYS = 3
_DAYS_IN_A_WEEK = 7

# Balance and windows as in `ledger_budgets`, in a form that takes less time for ten thousand agents: nothing is looked
# up for an agent that has decided nothing in a window, and functions are called only for agents with a repaired clock.
_USAGE = """
    SELECT a.id, greatest(a.balance - hold.amount, 0), windows.today + hold.amount + below.today,
           windows.this_week + hold.amount + below.this_week, p.daily_limit, p.weekly_limit, windows.this_week
      FROM policy_agent a
     CROSS JOIN LATERAL (SELECT COALESCE(sum(h.amount), 0) AS amount
                           FROM ledger_hold h WHERE h.agent_id = a.id AND h.ended_at IS NULL) hold
      JOIN policy_policyrevision p ON p.agent_id = a.id AND p.number = a.policy_revision
     CROSS JOIN LATERAL (SELECT greatest(statement_timestamp(), a.last_entry_at) - interval '24 hours' AS day_ago,
                                greatest(statement_timestamp(), a.last_entry_at) - interval '7 days' AS week_ago) since
      LEFT JOIN LATERAL (
           SELECT COALESCE(sum(m.amount) FILTER (WHERE m.spent_at > since.day_ago), 0) AS today,
                  COALESCE(sum(m.amount), 0) AS this_week
             FROM ledger_balancemovement m
            WHERE m.agent_id = a.id AND m.kind = 'return' AND m.spent_at > since.week_ago
           ) returned ON a.last_entry_at > since.week_ago
     CROSS JOIN LATERAL (
           SELECT CASE WHEN a.last_entry_at > since.day_ago THEN a.spent_total - returned.today - COALESCE((
                            SELECT e.spent_total FROM ledger_logentry e
                             WHERE e.agent_id = a.id AND e.created_at <= since.day_ago
                             ORDER BY e.created_at DESC, e.id DESC LIMIT 1), 0) ELSE 0 END AS today,
                  CASE WHEN a.last_entry_at > since.week_ago THEN a.spent_total - returned.this_week - COALESCE((
                            SELECT e.spent_total FROM ledger_logentry e
                             WHERE e.agent_id = a.id AND e.created_at <= since.week_ago
                             ORDER BY e.created_at DESC, e.id DESC LIMIT 1), 0) ELSE 0 END AS this_week
            WHERE NOT EXISTS (SELECT FROM ledger_clockrepair r WHERE r.agent_id = a.id)
            UNION ALL
           SELECT ledger_spent_since(a.id, a.spent_total, since.day_ago),
                  ledger_spent_since(a.id, a.spent_total, since.week_ago)
            WHERE EXISTS (SELECT FROM ledger_clockrepair r WHERE r.agent_id = a.id)
           ) windows
     CROSS JOIN LATERAL (
           SELECT 0 AS today, 0 AS this_week WHERE a.ancestors IS NULL
            UNION ALL
           SELECT (ledger_below_since(a.id, since.day_ago))[1] + waiting.amount,
                  (ledger_below_since(a.id, since.week_ago))[1] + waiting.amount
             FROM (SELECT COALESCE(sum(h.amount), 0) AS amount
                     FROM ledger_hold h WHERE h.ancestors @> ARRAY[a.id] AND h.ended_at IS NULL) waiting
            WHERE a.ancestors IS NOT NULL
           ) below
     WHERE a.id = ANY(%s::text[])
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """What an agent has, what it spent in each window, and the limits; amounts in units of its asset.

    What waits for a person's approval counts as spent, and so does what those below the agent pay. `paid_this_week` is
    what the agent itself has paid.
    """

    agent_id: str
    balance: Decimal
    spent_today: Decimal
    spent_this_week: Decimal
    daily_limit: Decimal
    weekly_limit: Decimal
    paid_this_week: Decimal

    @property
    def of_day(self) -> Decimal:
        """The part of the daily limit that is spent."""
        return share(self.spent_today, self.daily_limit)

    @property
    def of_week(self) -> Decimal:
        """The part of the weekly limit that is spent."""
        return share(self.spent_this_week, self.weekly_limit)

    @property
    def is_near_a_limit(self) -> bool:
        return max(self.of_day, self.of_week) >= NEAR_A_LIMIT

    @property
    def days_left(self) -> Decimal | None:
        return days_left(self.balance, self.paid_this_week)

    @property
    def runs_dry(self) -> bool:
        """Whether the balance will be used up within days."""
        return self.days_left is not None and self.days_left < RUNS_DRY_WITHIN_DAYS


def find_usage(agent_ids: Sequence[str]) -> list[Usage]:
    """Read the usage of agents, as many as there are, in no certain order."""
    return [Usage(*row) for row in fetch_briefly(_USAGE, [list(agent_ids)])]


def share(spent: Decimal, limit: Decimal) -> Decimal:
    """Divide what is spent by a limit; a limit of zero is not used: nothing can be spent."""
    return EXACT.divide(spent, limit) if limit else Decimal(0)


def days_left(balance: Decimal, spent_this_week: Decimal) -> Decimal | None:
    """Tell for how many days a balance lasts at the rate of the last seven; None: nothing was spent."""
    if spent_this_week <= 0:
        return None
    return EXACT.divide(EXACT.multiply(balance, Decimal(_DAYS_IN_A_WEEK)), spent_this_week)

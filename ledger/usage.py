"""How much of their limits agents have spent, and how long their balances last: of all agents at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from foundation.database import fetch_briefly
from foundation.groups import read_of_agents
from foundation.kernel.money import EXACT

NEAR_A_LIMIT = Decimal("0.8")
RUNS_DRY_WITHIN_DAYS = 3
_DAYS_IN_A_WEEK = 7


def _spent(since: str) -> str:
    """Write what an agent has spent since a moment, with what those below it have."""
    return f"""CASE WHEN a.last_entry_at > {since} THEN a.spent_total - COALESCE((
                 SELECT e.spent_total FROM ledger_logentry e WHERE e.agent_id = a.id AND e.created_at <= {since}
                  ORDER BY e.created_at DESC, e.id DESC LIMIT 1), 0) - COALESCE((
                 SELECT sum(m.amount) FROM ledger_balancemovement m
                  WHERE m.agent_id = a.id AND m.kind = 'return' AND m.spent_at > {since}), 0) ELSE 0 END
               + CASE WHEN below.is_any THEN (ledger_below_since(a.id, {since}))[1] ELSE 0 END"""  # noqa: S608


def _made(since: str) -> str:
    """Write how many payments an agent has made since a moment, with those below it."""
    return f"""CASE WHEN a.last_entry_at > {since} THEN tally.payments - COALESCE((
                 SELECT k.payments FROM ledger_tallymark k WHERE k.agent_id = a.id AND k.payee = '' AND k.at <= {since}
                  ORDER BY k.at DESC, k.payments DESC LIMIT 1), 0) - (
                 SELECT count(*) FROM ledger_balancemovement m
                  WHERE m.agent_id = a.id AND m.kind = 'return' AND m.spent_at > {since}) ELSE tally.payments * 0 END
               + CASE WHEN below.is_any THEN (ledger_below_since(a.id, {since}))[2] ELSE 0 END"""  # noqa: S608


_REPAIRED = """(SELECT ledger_counted_by(p, s.spent, t.counted)
              FROM ledger_spent(a, since.now, p) s
              LEFT JOIN LATERAL ledger_tallied(ARRAY[a.id], ARRAY[NULL], ARRAY[since.now]) t ON p.counts_payments)"""
# The same of an agent whose clock was never repaired.
_COUNTED = f"""ARRAY[
    CASE WHEN most.hour > 0 THEN {_spent("since.hour_ago")} END,
    CASE WHEN most.month > 0 THEN {_spent("since.month_ago")} END,
    CASE WHEN most.ever > 0 THEN tally.spent - tally.returned
              + CASE WHEN below.is_any THEN (ledger_below_since(a.id, '-infinity'))[1] ELSE 0 END END,
    CASE WHEN most.hour_count > 0 THEN {_made("since.hour_ago")} END,
    CASE WHEN most.day_count > 0 THEN {_made("since.day_ago")} END]"""
# Balance and windows as in `ledger_budgets`, in a form that takes less time for ten thousand agents: nothing is looked
# up for an agent that has decided nothing in a window, and functions are called only for agents with a repaired clock,
# or with payments below them.
_USAGE = f"""
    SELECT a.id, greatest(a.balance - hold.amount, 0), windows.today + hold.amount + below.today,
           windows.this_week + hold.amount + below.this_week, p.daily_limit, p.weekly_limit, windows.this_week,
           more.part
      FROM policy_agent a
     CROSS JOIN LATERAL (SELECT COALESCE(sum(h.amount), 0) AS amount, count(*) AS payments
                           FROM ledger_hold h WHERE h.agent_id = a.id AND h.ended_at IS NULL) hold
      JOIN policy_policyrevision p ON p.agent_id = a.id AND p.number = a.policy_revision
     CROSS JOIN LATERAL (SELECT greatest(statement_timestamp(), a.last_entry_at) AS now) clock
     CROSS JOIN LATERAL (SELECT clock.now, clock.now - interval '1 hour' AS hour_ago,
                                clock.now - interval '24 hours' AS day_ago, clock.now - interval '7 days' AS week_ago,
                                clock.now - interval '30 days' AS month_ago) since
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
           SELECT 0 AS today, 0 AS this_week, 0 AS held, 0 AS held_payments, false AS is_any WHERE a.ancestors IS NULL
            UNION ALL
           SELECT CASE WHEN paid.is_any THEN (ledger_below_since(a.id, since.day_ago))[1] ELSE 0 END + waiting.amount,
                  CASE WHEN paid.is_any THEN (ledger_below_since(a.id, since.week_ago))[1] ELSE 0 END + waiting.amount,
                  waiting.amount, waiting.payments, paid.is_any
             FROM (SELECT COALESCE(sum(h.amount), 0) AS amount, count(*) AS payments
                     FROM ledger_hold h WHERE h.ancestors @> ARRAY[a.id] AND h.ended_at IS NULL) waiting,
                  (SELECT EXISTS (SELECT FROM ledger_levelpayment l WHERE l.level_id = a.id) AS is_any) paid
            WHERE a.ancestors IS NOT NULL
           ) below
      LEFT JOIN LATERAL (
           SELECT true AS is_any, (m->>'hourlyLimit')::numeric AS hour, (m->>'monthlyLimit')::numeric AS month,
                  (m->>'totalLimit')::numeric AS ever, (m->>'paymentsPerHour')::numeric AS hour_count,
                  (m->>'paymentsPerDay')::numeric AS day_count
             FROM CAST(p.more_json AS jsonb) m
            WHERE m ?| ARRAY['hourlyLimit', 'monthlyLimit', 'totalLimit', 'paymentsPerHour', 'paymentsPerDay']
           ) most ON p.more_json <> '{{}}'
      LEFT JOIN LATERAL (
           SELECT t.payments, t.spent, t.returned FROM ledger_tally t
            WHERE t.agent_id = a.id AND t.payee = '' AND t.spent = a.spent_total
           ) tally ON p.counts_payments AND p.more_json <> '{{}}'
      LEFT JOIN LATERAL (
           SELECT greatest((counted[1] + waits.amount) / NULLIF(most.hour, 0),
                           (counted[2] + waits.amount) / NULLIF(most.month, 0),
                           (counted[3] + waits.amount) / NULLIF(most.ever, 0),
                           (counted[4] + waits.payments) / NULLIF(most.hour_count, 0),
                           (counted[5] + waits.payments) / NULLIF(most.day_count, 0)) AS part
             FROM (SELECT hold.amount + below.held AS amount, hold.payments + below.held_payments AS payments) waits,
                  LATERAL (SELECT CASE WHEN EXISTS (SELECT FROM ledger_clockrepair r WHERE r.agent_id = a.id)
                                       THEN {_REPAIRED} ELSE {_COUNTED} END AS counted
                           OFFSET 0) found  -- counted once, not for each limit
           ) more ON most.is_any
     WHERE a.id = ANY(%s::text[])
"""  # noqa: S608 - our own text


@dataclass(frozen=True, slots=True)
class Usage:
    """What an agent has, what it spent in each window, and the limits; amounts in units of its asset.

    What waits for a person's approval counts as spent, and so does what those below the agent pay. `paid_this_week` is
    what the agent itself has paid. `of_more`: the greatest part of a limit of an hour, of 30 days, of all time or of a
    number of payments that is used; None: there is none, or it cannot be counted at present.
    """

    agent_id: str
    balance: Decimal
    spent_today: Decimal
    spent_this_week: Decimal
    daily_limit: Decimal
    weekly_limit: Decimal
    paid_this_week: Decimal
    of_more: Decimal | None = None

    @property
    def of_day(self) -> Decimal:
        """The part of the daily limit that is spent."""
        return share(self.spent_today, self.daily_limit)

    @property
    def of_week(self) -> Decimal:
        """The part of the weekly limit that is spent."""
        return share(self.spent_this_week, self.weekly_limit)

    @property
    def used(self) -> Decimal:
        """The greatest part of a limit that is used."""
        return max(self.of_day, self.of_week, self.of_more or Decimal(0))

    @property
    def is_near_a_limit(self) -> bool:
        return self.used >= NEAR_A_LIMIT

    @property
    def days_left(self) -> Decimal | None:
        return days_left(self.balance, self.paid_this_week)

    @property
    def runs_dry(self) -> bool:
        """Whether the balance will be used up within days."""
        return self.days_left is not None and self.days_left < RUNS_DRY_WITHIN_DAYS


def find_usage(agent_ids: Sequence[str]) -> list[Usage]:
    """Read the usage of agents, as many as there are, in no certain order."""
    return [Usage(*row) for row in read_of_agents(agent_ids, lambda ids: fetch_briefly(_USAGE, [ids]))]


def share(spent: Decimal, limit: Decimal) -> Decimal:
    """Divide what is spent by a limit; a limit of zero is not used: nothing can be spent."""
    return EXACT.divide(spent, limit) if limit else Decimal(0)


def days_left(balance: Decimal, spent_this_week: Decimal) -> Decimal | None:
    """Tell for how many days a balance lasts at the rate of the last seven; None: nothing was spent."""
    if spent_this_week <= 0:
        return None
    return EXACT.divide(EXACT.multiply(balance, Decimal(_DAYS_IN_A_WEEK)), spent_this_week)

"""Read what an agent did, for `ledger.replay`: what is judged anew, and what limits need to know of before."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from foundation.database import fetch_briefly
from foundation.kernel.money import EXACT
from ledger.below_reads import ASKER, read_paid_below, read_payments_below, read_returns_below, read_spent_below
from ledger.models import ClockRepair
from ledger.past import History, Move, Past, Payee, Repair
from ledger.spends_before import BELOW, OWN, SpendsBefore, read_decisions
from policy.models import Agent
from policy.more_limits import MoreLimits
from policy.objections import NOT_ON_THE_LIST
from policy.rules import SERVICE_RULE

_ENTRIES = f"""
    SELECT json_build_array(
               d.created_at, d.id, d.service, d.amount, d.asset, d.rule, d.result = 'approved',
               d.rule = %(service_rule)s AND d.explanation_json::json->>'message' = %(off_list)s,
               d.payment_id, COALESCE(d.clock_repairs, 0), true, 1, asker IS NOT NULL,
               COALESCE(asker <> %(agent)s, false)
               OR CASE WHEN d.result = 'blocked' AND position('"level"' IN d.explanation_json) > 0
                       THEN d.explanation_json::json->'level' IS NOT NULL ELSE false END)
      FROM ledger_logentry d, LATERAL (SELECT {ASKER} AS asker) asked
     WHERE d.agent_id = %(agent)s AND d.created_at > %(since)s AND d.result <> 'held'
     ORDER BY d.created_at DESC, d.id DESC LIMIT %(most)s
"""  # noqa: S608 - our own text
# Movements have no index by time: the payment that came last before the time in question tells where to begin.
_MOVES = """
    SELECT v.created_at, v.amount, v.spent_at, v.payment_id,
           (SELECT e.service FROM ledger_logentry e
             WHERE e.agent_id = v.agent_id AND e.created_at = v.spent_at AND e.payment_id = v.payment_id
               AND e.result = 'approved')
      FROM ledger_balancemovement v
     WHERE v.agent_id = %(agent)s AND v.kind <> 'payment' AND v.id > COALESCE((
           SELECT m.id FROM ledger_balancemovement m WHERE m.kind = 'payment' AND m.payment_id = (
                  SELECT e.payment_id FROM ledger_logentry e
                   WHERE e.agent_id = %(agent)s AND e.result = 'approved' AND e.created_at <= %(since)s
                   ORDER BY e.created_at DESC, e.id DESC LIMIT 1)), 0)
     ORDER BY v.created_at, v.id
"""
_GIVEN_BACK = """
    SELECT COALESCE(sum(amount), 0) FROM ledger_balancemovement WHERE agent_id = %(agent)s AND kind = 'return'
"""
# How many payments to each payee were not given back: by the tally, if there is one and it is that of the log.
_PAID = """
    SELECT t.payee, t.payments - t.returned_payments FROM ledger_tally t
     WHERE t.agent_id = %(agent)s AND t.payee <> '' AND EXISTS (
           SELECT FROM ledger_tally h JOIN policy_agent a ON a.id = h.agent_id AND a.spent_total = h.spent
            WHERE h.agent_id = %(agent)s AND h.payee = '')
"""
_PAID_BY_LOG = """
    SELECT service, sum(payments)::bigint FROM (
           SELECT service, count(*) AS payments FROM ledger_logentry
            WHERE agent_id = %(agent)s AND result = 'approved' GROUP BY service
            UNION ALL
           SELECT e.service, -1 FROM ledger_balancemovement m
             JOIN ledger_logentry e
               ON e.agent_id = m.agent_id AND e.created_at = m.spent_at AND e.payment_id = m.payment_id
              AND e.result = 'approved'
            WHERE m.agent_id = %(agent)s AND m.kind = 'return') counted
     GROUP BY service
"""


def read_history(
    agent: Agent, more: MoreLimits, *, since: datetime, payees: Mapping[str, Payee], most: int
) -> tuple[History, bool]:
    """Read what an agent asked for, and those below it paid, since a moment: the newest `most`.

    With what these limits need to know of before.

    Returns whether there was more.
    """
    asked = {"agent": agent.pk, "since": since, "most": most + 1}
    asked |= {"service_rule": SERVICE_RULE.name, "off_list": NOT_ON_THE_LIST}
    entries = read_decisions(_ENTRIES, asked)
    if is_in_tree := agent.ancestors is not None:
        entries = sorted([*entries, *read_payments_below(asked)], key=Past.moment, reverse=True)
    is_capped, entries = len(entries) > most, entries[:most]
    repairs, decisions = _read_repairs(agent), entries
    if entries:
        first, last = min(entries, key=Past.moment), max(entries, key=Past.moment)
        before = SpendsBefore(agent.pk, more, repairs, first, last, (OWN, BELOW) if is_in_tree else (OWN,))
        since, decisions = before.since, [*before.read(), *entries]
    decisions.sort(key=lambda past: (past.repairs, past.moment()))
    spent, paid = _read_totals(agent, more, {past.service for past in entries})
    moves = _read_moves(agent, since)
    return _as_it_began(History(agent.asset, agent.balance, decisions, moves, repairs, payees, spent, paid)), is_capped


def _read_moves(agent: Agent, since: datetime) -> list[Move]:
    moves = [Move(*row) for row in fetch_briefly(_MOVES, {"agent": agent.pk, "since": since})]
    if agent.ancestors is None:
        return moves
    return sorted([*moves, *read_returns_below(agent.pk, since)], key=lambda move: move.at)


def _read_repairs(agent: Agent) -> list[Repair]:
    rows = ClockRepair.objects.filter(agent=agent).order_by("number").values_list("number", "repaired_at", "head_at")
    return [Repair(*row) for row in rows]


def _read_totals(agent: Agent, more: MoreLimits, payees: Collection[str]) -> tuple[Decimal, Counter[str]]:
    """Read what the agent has spent until now, and how many payments it has made to each payee, if limits need it.

    With what those below it have paid, to these payees.
    """
    spent, paid, asked = Decimal(0), Counter[str](), {"agent": agent.pk}
    if more.total_limit is not None:
        ((given_back,),) = fetch_briefly(_GIVEN_BACK, asked)
        spent = EXACT.subtract(agent.spent_total, given_back)
        if agent.ancestors is not None:
            spent = EXACT.add(spent, read_spent_below(agent.pk))
    if more.new_payee_payments is not None or more.approval_for_first is not None:
        paid.update(dict(fetch_briefly(_PAID, asked) or fetch_briefly(_PAID_BY_LOG, asked)))
        if agent.ancestors is not None:
            paid.update(read_paid_below(agent.pk, payees))
    return spent, paid


def _as_it_began(history: History) -> History:
    """Take away what happened from what the agent has, has spent and has paid until now."""
    balance, spent, paid = history.balance, history.spent, Counter(history.paid)
    for past in history.decisions:
        if past.is_approved:
            balance = balance if past.payer is not None else EXACT.add(balance, past.amount)
            spent = EXACT.subtract(spent, past.amount)
            paid[past.service] -= past.payments
    for move in history.moves:
        balance = balance if move.is_below else EXACT.subtract(balance, move.amount)
        if move.spent_at is not None:
            spent = EXACT.add(spent, move.amount)
            paid[move.payee or ""] += 1
    return replace(history, balance=balance, spent=spent, paid=paid)

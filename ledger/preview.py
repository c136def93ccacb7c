"""Tell what other limits would have refused, or let through, of what an agent asked for lately.

See `ledger.replay` for what is judged anew and what is taken as it was.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import reduce

from foundation.database import fetch_briefly
from foundation.kernel.money import EXACT
from ledger.models import ClockRepair
from ledger.past import History, Move, Past, Payee, Repair
from ledger.replay import Judged, replay
from policy.models import Agent
from policy.objections import NOT_ON_THE_LIST, WEEK
from policy.operations import Limits
from policy.rules import SERVICE_RULE

PERIOD = timedelta(days=30)
MOST_DECISIONS = 10_000  # so that the page comes within 300 ms
MOST_SPENDS_BEFORE = 20_000
MOST_LISTED = 50

_ENTRIES = """
    SELECT created_at, id, service, amount::numeric, asset, rule, result = 'approved',
           rule = %(service_rule)s AND explanation_json::json->>'message' = %(off_list)s,
           payment_id, COALESCE(clock_repairs, 0), true
      FROM ledger_logentry
     WHERE agent_id = %(agent)s AND created_at > %(since)s
     ORDER BY created_at DESC, id DESC LIMIT %(most)s
"""
# What was spent before the first of them and can still be in a window.
_BEFORE = """
    SELECT created_at, id, service, amount::numeric, asset, rule, true, false, payment_id, COALESCE(clock_repairs, 0),
           false
      FROM ledger_logentry
     WHERE agent_id = %(agent)s AND result = 'approved'
       AND created_at > %(since)s AND (created_at, id) < (%(until)s, %(first)s)
     ORDER BY created_at DESC, id DESC LIMIT %(most)s
"""
# The same by the minute, where there are too many.
_BEFORE_BY_MINUTE = """
    SELECT max(created_at), max(id), '', sum(amount::numeric), '', '', true, false, NULL, COALESCE(clock_repairs, 0),
           false
      FROM ledger_logentry
     WHERE agent_id = %(agent)s AND result = 'approved'
       AND created_at > %(since)s AND (created_at, id) < (%(until)s, %(first)s)
     GROUP BY date_trunc('minute', created_at), COALESCE(clock_repairs, 0)
"""
# Movements have no index by time: the payment that came last before the time in question tells where to begin.
_MOVES = """
    SELECT created_at, amount, spent_at, payment_id FROM ledger_balancemovement
     WHERE agent_id = %(agent)s AND kind <> 'payment' AND id > COALESCE((
           SELECT m.id FROM ledger_balancemovement m WHERE m.kind = 'payment' AND m.payment_id = (
                  SELECT e.payment_id FROM ledger_logentry e
                   WHERE e.agent_id = %(agent)s AND e.result = 'approved' AND e.created_at <= %(since)s
                   ORDER BY e.created_at DESC, e.id DESC LIMIT 1)), 0)
     ORDER BY created_at, id
"""


@dataclass(slots=True)
class Share:
    """Some decisions: how many, their sum, how many by each rule, and the newest of them."""

    count: int = 0
    total: Decimal = Decimal(0)
    by_rule: Counter[str] = field(default_factory=Counter)
    total_by_rule: defaultdict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    newest: deque[Judged] = field(default_factory=lambda: deque(maxlen=MOST_LISTED))

    def add(self, judged: Judged, rule: str) -> None:
        self.count += 1
        self.total = EXACT.add(self.total, judged.past.amount)
        self.by_rule[rule] += 1
        self.total_by_rule[rule] = EXACT.add(self.total_by_rule[rule], judged.past.amount)
        self.newest.appendleft(judged)


@dataclass(frozen=True, slots=True)
class Preview:
    """What other limits would have done since a moment.

    `refused` was approved and would not have been, by the rule that would have refused it; `let_through` was refused
    and would not have been, by the rule that refused it. `is_capped`: there were more decisions, which are not judged.
    """

    since: datetime
    decisions: int
    is_capped: bool
    refused: Share
    let_through: Share


def preview_limits(
    agent: Agent, limits: Limits, *, now: datetime, payees: Mapping[str, Payee], most: int = MOST_DECISIONS
) -> Preview:
    """Judge an agent's newest decisions of the last 30 days by other limits, `most` at most.

    `payees`: those as they are now to which a service may be that only the other limits allow.
    """
    history, is_capped = read_history(agent, since=now - PERIOD, payees=payees, most=most)
    refused, let_through = Share(), Share()
    for judged in replay(history, limits):
        if judged.past.is_approved and not judged.is_approved:
            refused.add(judged, judged.rule)
        elif judged.is_approved and not judged.past.is_approved:
            let_through.add(judged, judged.past.rule)
    judged_at = [past.at for past in history.decisions if past.is_judged]
    since = min(judged_at) if is_capped else now - PERIOD
    return Preview(since, len(judged_at), is_capped, refused, let_through)


def read_history(
    agent: Agent, *, since: datetime, payees: Mapping[str, Payee], most: int = MOST_DECISIONS
) -> tuple[History, bool]:
    """Read what an agent asked for since a moment, the newest `most`, with what was spent in the week before.

    Returns whether there was more.
    """
    asked = {"agent": agent.pk, "since": since, "most": most + 1}
    asked |= {"service_rule": SERVICE_RULE.name, "off_list": NOT_ON_THE_LIST}
    entries = [Past(*row) for row in fetch_briefly(_ENTRIES, asked)]
    is_capped, entries = len(entries) > most, entries[:most]
    repairs = ClockRepair.objects.filter(agent=agent).order_by("number")
    found = [Repair(*row) for row in repairs.values_list("number", "repaired_at", "head_at")]
    first_at, first_id = min(((one.at, one.id) for one in entries), default=(since, ""))
    # What was in the future when a clock was repaired counts longer than a week.
    week_before = min([first_at - WEEK, *(one.repaired_at for one in found if one.head_at > first_at - WEEK)])
    before = _read_before(agent, week_before, first_at, first_id) if entries else []
    decisions = sorted((*before, *entries), key=lambda past: (past.repairs, past.at, past.id))
    moves = [Move(*row) for row in fetch_briefly(_MOVES, {"agent": agent.pk, "since": week_before})]
    changes = [past.amount for past in decisions if past.is_approved] + [-move.amount for move in moves]
    balance = reduce(EXACT.add, changes, agent.balance)
    return History(agent.asset, balance, decisions, moves, found, payees), is_capped


def _read_before(agent: Agent, since: datetime, until: datetime, first: str) -> Sequence[Past]:
    asked = {"agent": agent.pk, "since": since, "until": until, "first": first, "most": MOST_SPENDS_BEFORE + 1}
    rows = fetch_briefly(_BEFORE, asked)
    if len(rows) > MOST_SPENDS_BEFORE:
        rows = fetch_briefly(_BEFORE_BY_MINUTE, asked)
    return [Past(*row) for row in rows]

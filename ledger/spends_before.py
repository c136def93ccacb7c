"""Read what an agent spent before the first decision that is judged anew, as far back as it can be in a window.

Payments that leave a window while decisions are judged are read one by one. What is between those stays in each window
or is in none, and is read as a sum: an agent that pays often is judged for a short time, and so few payments are read.
Where too many leave, they are summed by steps of time, as of the last one of each.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

from foundation.database import fetch_briefly
from ledger.past import Past, Repair, lengths_of_windows, limits_payees
from policy.more_limits import MoreLimits
from policy.objections import DAY, WEEK

MOST_SPENDS = 20_000
_MOST_STEPS = 2_000
_SHORTEST_STEP = timedelta(minutes=1)
# Of one moment, what was paid below comes before what the agent paid itself: see `Past.moment`.
_ALL = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Source:
    """Payments that an agent counts, as text of SQL.

    `spends`: those of a span that come before the first decision that is judged anew; `total_at`: the running total at
    a moment `at`.
    """

    spends: str
    total_at: str


OWN = Source(
    """
    SELECT created_at AS at, id, service, amount, asset, payment_id, COALESCE(clock_repairs, 0) AS repairs,
           NULL::text AS payer
      FROM ledger_logentry
     WHERE agent_id = %(agent)s AND result = 'approved' AND created_at > %(begins)s AND created_at <= %(ends)s
       AND (created_at, id) < (%(first_at)s, %(first_id)s)
    """,
    """
    SELECT spent_total FROM ledger_logentry WHERE agent_id = %(agent)s AND created_at <= at
     ORDER BY created_at DESC, id DESC LIMIT 1
    """,
)
BELOW = Source(
    """
    SELECT l.at, l.payment_id AS id, l.payee AS service, l.amount::text AS amount, '' AS asset, l.payment_id, (
           SELECT count(*) FROM ledger_clockrepair r WHERE r.agent_id = l.level_id AND r.repaired_at < l.at
           )::int AS repairs, '' AS payer
      FROM ledger_levelpayment l
     WHERE l.level_id = %(agent)s AND l.at > %(begins)s AND l.at <= %(ends)s
       AND (l.at, l.number) < (%(first_at)s, %(first_number)s)
    """,
    """
    SELECT l.spent FROM ledger_levelpayment l WHERE l.level_id = %(agent)s AND l.at <= moments.at
     ORDER BY l.at DESC, l.number DESC LIMIT 1
    """,
)
_COUNT = "SELECT count(*) FROM ({} LIMIT %(most)s) counted"
_ONE_BY_ONE = """
    SELECT json_build_array(
               at, id, service, amount, asset, '', true, false, payment_id, repairs, false, 1, false, false, payer)
      FROM ({}) spends
"""
_SUMMED = """
    SELECT json_build_array(
               max(at), max(id), payee, sum(amount::numeric)::text, '', '', true, false, NULL, repairs, false,
               count(*), false, false, max(payer))
      FROM (SELECT *, CASE WHEN %(by_payee)s THEN service ELSE '' END AS payee,
                   date_bin(%(step)s, at, %(begins)s) AS step
              FROM ({}) found) spends
     GROUP BY step, payee, repairs
"""
# By the running totals, whatever number of payments it was.
_BY_TOTALS = """
    SELECT json_build_array(at, '', '', spent::text, '', '', true, false, NULL, 0, false, 0)
      FROM (SELECT at, total - lag(total) OVER (ORDER BY at) AS spent
              FROM (SELECT at, COALESCE(({}), 0) AS total
                      FROM unnest(%(moments)s::timestamptz[]) moments(at)) totals) spends
     WHERE spent <> 0
"""
Span = tuple[datetime, datetime]  # it begins behind the one, and ends with the other


@dataclass(frozen=True)
class SpendsBefore:
    """What an agent spent before the first decision that is judged anew; `first` and `last` are those by time.

    `sources`: what it counts.
    """

    agent_id: str
    more: MoreLimits
    repairs: Sequence[Repair]
    first: Past
    last: Past
    sources: Sequence[Source] = (OWN,)

    @cached_property
    def since(self) -> datetime:
        """Since when it is read. What was in the future when a clock was repaired counts longer than a window is."""
        begins = self.first.at - max(lengths_of_windows(self.more))
        return min([begins, *(one.repaired_at for one in self.repairs if one.head_at > begins)])

    def read(self) -> list[Past]:
        """Read it."""
        leaving = self._leave()
        found: list[Past] = []
        for source in self.sources:
            for span in leaving:
                found += self._read(source, span, most=MOST_SPENDS // (len(leaving) * len(self.sources)))
            for begins, ends in self._stay(leaving):
                found += self._sum(source, (begins, ends), ends - begins)
        return found

    def _leave(self) -> list[Span]:
        """Return what leaves windows while decisions are judged, the newest first."""
        if any(one.head_at > self.since for one in self.repairs):
            return [(self.since, self.first.at)]
        spans: list[Span] = []
        for length in lengths_of_windows(self.more):
            begins, ends = self.first.at - length, min(self.last.at - length, self.first.at)
            if spans and spans[-1][0] <= ends:
                ends = spans.pop()[1]
            spans.append((begins, ends))
        return spans

    def _stay(self, leaving: Sequence[Span]) -> Iterator[Span]:
        """Yield what is between that, and before the first decision."""
        until = self.first.at
        for begins, ends in leaving:
            if ends < until:
                yield ends, until
            until = begins

    def _read(self, source: Source, span: Span, *, most: int) -> list[Past]:
        ((count,),) = fetch_briefly(_COUNT.format(source.spends), self._asked(span) | {"most": most + 1})
        if count <= most:
            return read_decisions(_ONE_BY_ONE.format(source.spends), self._asked(span))
        return self._sum(source, span, max(_SHORTEST_STEP, (span[1] - span[0]) / _MOST_STEPS))

    def _sum(self, source: Source, span: Span, step: timedelta) -> list[Past]:
        """Sum what was spent by steps; that of one payee, and the number of payments, if a window is about it."""
        begins, ends = span
        border = self.since if self.repairs else self.first.at - (WEEK if limits_payees(self.more) else DAY)
        found: list[Past] = []
        if begins < border:
            moments = _steps(begins, min(ends, border), step)
            found += read_decisions(_BY_TOTALS.format(source.total_at), {"agent": self.agent_id, "moments": moments})
        if border < ends:
            asked = self._asked((max(begins, border), ends))
            found += read_decisions(
                _SUMMED.format(source.spends), asked | {"step": step, "by_payee": limits_payees(self.more)}
            )
        return found

    def _asked(self, span: Span) -> dict[str, Any]:
        begins, ends = span
        is_below = self.first.payer is not None
        return {
            "agent": self.agent_id, "begins": begins, "ends": ends, "first_at": self.first.at,
            "first_id": "" if is_below else self.first.id, "first_number": self.first.number if is_below else _ALL,
        }  # fmt: skip


def _steps(begins: datetime, ends: datetime, step: timedelta) -> list[datetime]:
    """Return moments that are a step apart, from the beginning to the end."""
    return [*(begins + number * step for number in range(-((begins - ends) // step))), ends]


def read_decisions(statement: str, asked: Mapping[str, Any]) -> list[Past]:
    """Read what a statement selects as JSON: so thousands of rows are read in a fraction of the time."""
    asking = f"SELECT json_agg(decision)::text FROM ({statement}) found(decision)"  # noqa: S608 - our own
    ((text,),) = fetch_briefly(asking, asked)
    return [
        Past(datetime.fromisoformat(one[0]), one[1], one[2], Decimal(one[3]), *one[4:])
        for one in json.loads(text or "[]")
    ]

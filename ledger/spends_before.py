"""Read what an agent spent before the first decision that is judged anew, as far back as it can be in a window.

Payments that leave a window while decisions are judged are read one by one, and what stays in it, or is in none by
then, as a sum. So it takes no longer where there were very many.
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
_STEP = timedelta(minutes=5)

_OF_SPANS = """
      FROM unnest(%(begins)s::timestamptz[], %(ends)s::timestamptz[]) AS span(begins, ends),
   LATERAL (SELECT *, COALESCE(clock_repairs, 0) AS repairs FROM ledger_logentry
             WHERE agent_id = %(agent)s AND result = 'approved' AND created_at > begins AND created_at <= ends
               AND (created_at, id) < (%(first_at)s, %(first_id)s)) spends
"""
_COUNT = f"SELECT count(*) FROM (SELECT {_OF_SPANS} LIMIT %(most)s) counted"  # noqa: S608 - our own text
_ONE_BY_ONE = f"""
    SELECT json_build_array(
               created_at, id, service, amount, asset, rule, true, false, payment_id, repairs, false) {_OF_SPANS}
"""
_BY_SPAN = f"""
    SELECT json_build_array(
               max(created_at), max(id), payee, sum(amount::numeric)::text, '', '', true, false, NULL, repairs, false,
               count(*))
      FROM (SELECT *, CASE WHEN %(by_payee)s THEN service ELSE '' END AS payee,
                   CASE WHEN %(by_minute)s THEN date_trunc('minute', created_at) ELSE begins END AS part
            {_OF_SPANS}) parts
     GROUP BY part, payee, repairs
"""  # noqa: S608 - our own text
# By the running totals of the log, whatever number of payments it was.
_BY_TOTALS = """
    SELECT json_build_array(at, '', '', spent::text, '', '', true, false, NULL, -1, false, 0)
      FROM (SELECT at, lag(spent_since) OVER (ORDER BY at) - spent_since AS spent
              FROM (SELECT at, ledger_decided_since(%(agent)s, 0, at) AS spent_since
                      FROM unnest(%(moments)s::timestamptz[]) at) moments) spends
     WHERE spent <> 0
"""
Span = tuple[datetime, datetime]  # begins behind the one, ends with the other


@dataclass(frozen=True)
class SpendsBefore:
    """What an agent spent before the first decision that is judged anew; `first` and `last` are those by time."""

    agent_id: str
    more: MoreLimits
    repairs: Sequence[Repair]
    first: Past
    last: Past

    @cached_property
    def since(self) -> datetime:
        """Since when it is read."""
        return self._reach(max(lengths_of_windows(self.more)))

    def read(self) -> list[Past]:
        """Read it; where too many payments leave a window, by the minute, and by 5 minutes longer than a week ago."""
        leaving = self._leaving()
        ((count,),) = fetch_briefly(_COUNT, self._asked(leaving))
        if count <= MOST_SPENDS:
            found = read_decisions(_ONE_BY_ONE, self._asked(leaving))
            for span in self._stay(leaving):
                found += self._sum(span)
            return found
        week_before = self._reach(WEEK)
        found = read_decisions(_BY_SPAN, self._asked([(week_before, self.first.at)], by_minute=True))
        if self.since < week_before:
            found += self._read_totals(_moments(self.since, week_before))
        return found

    def _leaving(self) -> list[Span]:
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
        """Yield what is between that, and before the first decision: each is as a whole in a window, or not."""
        until = self.first.at
        for begins, ends in leaving:
            if ends < until:
                yield ends, until
            until = begins

    def _sum(self, span: Span) -> list[Past]:
        """Sum what was spent in a span, by payee and with the number of payments if a window is about them."""
        longest = WEEK if limits_payees(self.more) else DAY
        if span[1] <= self.first.at - longest:
            return self._read_totals(span)
        return read_decisions(_BY_SPAN, self._asked([span]))

    def _read_totals(self, moments: Sequence[datetime]) -> list[Past]:
        return read_decisions(_BY_TOTALS, {"agent": self.agent_id, "moments": list(moments)})

    def _asked(self, spans: Sequence[Span], *, by_minute: bool = False) -> dict[str, Any]:
        begins, ends = zip(*spans, strict=True)
        return {
            "agent": self.agent_id, "begins": list(begins), "ends": list(ends), "first_at": self.first.at,
            "first_id": self.first.id, "most": MOST_SPENDS + 1, "by_payee": limits_payees(self.more),
            "by_minute": by_minute,
        }  # fmt: skip

    def _reach(self, length: timedelta) -> datetime:
        """Tell where a window begins. What was in the future when a clock was repaired counts longer than it is."""
        begins = self.first.at - length
        return min([begins, *(one.repaired_at for one in self.repairs if one.head_at > begins)])


def _moments(since: datetime, until: datetime) -> list[datetime]:
    """Return moments from one to another that are a step apart, the last one in any case."""
    steps = (until - since) // _STEP + 2
    return [until - number * _STEP for number in range(steps)]


def read_decisions(statement: str, asked: Mapping[str, Any]) -> list[Past]:
    """Read what a statement selects as JSON: so thousands of rows are read in a fraction of the time."""
    asking = f"SELECT json_agg(decision)::text FROM ({statement}) found(decision)"  # noqa: S608 - our own
    ((text,),) = fetch_briefly(asking, asked)
    return [
        Past(datetime.fromisoformat(one[0]), one[1], one[2], Decimal(one[3]), *one[4:])
        for one in json.loads(text or "[]")
    ]

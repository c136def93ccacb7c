"""`manage.py backtest_policy FILE [--agent ID] [--days N] [--json]`."""

import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import JsonCommand
from foundation.kernel.times import utc_now
from ledger.past_payees import read_payees
from ledger.preview import MOST_DECISIONS, MOST_WITH_MORE, PERIOD, Preview, preview_limits
from payments.management.backtest_file import Tried, read_tried
from payments.management.backtest_output import lines_of, present
from payments.reconciling.verification import snapshot
from policy.models import Agent

# Of each agent, where days are asked for: all are held in memory.
_MOST_OF_DAYS = 250_000
_MOST_DAYS = 3_660
_PROGRESS_EVERY_S = 2


class Command(JsonCommand):
    help = (
        "Judge what agents asked for in the past by other limits, and say what these would have decided otherwise. "
        "FILE is a CSV file as create_agent --from has it: its first line names the columns id, asset, "
        "max_per_payment, daily_limit, weekly_limit, and if wanted services (separated by spaces or ;) and optional "
        "limits, such as hourly_limit (an empty cell: no such limit); fund and chain are ignored. Each line is an "
        f"agent that exists, with all of the limits to try. Without --days, its newest {MOST_DECISIONS:,} decisions "
        f"of the last {PERIOD.days} days are judged ({MOST_WITH_MORE:,} with optional limits), as the console's "
        "preview does. It changes nothing, and ends with status 0 whatever it finds."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", help="The agents and the limits to try on them: CSV.")
        parser.add_argument(
            "--agent", action="append", default=[], metavar="ID", help="Judge only this agent of the file; repeatable."
        )
        parser.add_argument(
            "--days",
            type=_read_days,
            metavar="N",
            help=f"Judge the decisions of the last N days, the newest {_MOST_OF_DAYS:,} of each agent at most.",
        )
        parser.add_argument("--json", action="store_true", help="Print one JSON object instead of lines.")

    def perform(self, **options: Any) -> dict[str, Any] | None:
        tried = read_tried(options["file"], only=options["agent"])
        judged = self._judge(tried, options["days"])
        if options["json"]:
            return {"agents": [present(one, found) for one, found in judged]}
        for one, found in judged:
            for line in lines_of(one, found):
                self.stdout.write(line)
        return None

    def _judge(self, tried: Sequence[Tried], days: int | None) -> Iterator[tuple[Tried, Preview]]:
        now, progress = utc_now(), _Progress(len(tried), self.stderr.write)
        options: dict[str, Any] = {"now": now, "report": progress.report}
        if days is not None:
            options |= {"since": now - timedelta(days=days), "most": _MOST_OF_DAYS}
        for one in tried:
            # Of one moment, and without the limit of time that a page has.
            with snapshot():
                agent = Agent.objects.get(pk=one.agent_id)
                found = preview_limits(agent, one.limits, payees=read_payees(one.limits), **options)
            progress.agents += 1
            yield one, found


class _Progress:
    """Says now and then how far the work has come."""

    def __init__(self, total: int, write: Callable[[str], Any]) -> None:
        self.agents, self._total, self._write = 0, total, write
        self._decisions, self._said_at = 0, time.monotonic()

    def report(self) -> None:
        """Count a decision."""
        self._decisions += 1
        if time.monotonic() - self._said_at > _PROGRESS_EVERY_S:
            self._said_at = time.monotonic()
            self._write(f"{self.agents:,} of {self._total:,} agents, {self._decisions:,} decisions judged ...")


def _read_days(text: str) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(_MOST_DAYS))
    if not is_number or not 1 <= int(text) <= _MOST_DAYS:
        raise ArgumentTypeError(f"must be a whole number from 1 to {_MOST_DAYS:,}")
    return int(text)

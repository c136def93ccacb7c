"""`manage.py backtest_policy FILE [--agent ID] [--days N] [--json]`."""

from argparse import ArgumentTypeError
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser

from foundation.kernel.times import utc_now
from ledger.preview import MOST_DECISIONS, MOST_WITH_MORE, PERIOD
from payments.management.backtest_file import read_tried
from payments.management.trials import MOST_SINCE, TrialCommand

_MOST_DAYS = 3_660


class Command(TrialCommand):
    help = (
        "Judge what agents asked for in the past by other limits, and say what these would have decided otherwise. "
        "FILE is a CSV file as create_agent --from has it: its first line names the columns id, asset, "
        "max_per_payment, daily_limit, weekly_limit, and if wanted services (separated by spaces or ;) and optional "
        "limits, such as hourly_limit (an empty cell: no such limit); fund, chain and parent are ignored. Each line is "
        f"an agent that exists, with all of the limits to try. Without --days, its newest {MOST_DECISIONS:,} decisions "
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
            help=f"Judge the decisions of the last N days, the newest {MOST_SINCE:,} of each agent at most.",
        )
        parser.add_argument("--json", action="store_true", help="Print one JSON object instead of lines.")

    def perform(self, **options: Any) -> dict[str, Any] | None:
        days = options["days"]
        since = None if days is None else utc_now() - timedelta(days=days)
        tried = read_tried(options["file"], only=options["agent"])
        return self.judge([replace(one, since=since) for one in tried], is_json=options["json"])


def _read_days(text: str) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(_MOST_DAYS))
    if not is_number or not 1 <= int(text) <= _MOST_DAYS:
        raise ArgumentTypeError(f"must be a whole number from 1 to {_MOST_DAYS:,}")
    return int(text)

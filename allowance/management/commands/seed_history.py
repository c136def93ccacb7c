"""`manage.py seed_history [--payments N] [--seed N] [--anyway]`."""

import sys
import time
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from allowance.commands import JsonCommand
from allowance.demo.history.seeding import seed_history
from policy.models import Agent

_BAR = 30
_REDRAWN_EVERY_S = 0.2


class Command(JsonCommand):
    help = (
        "Fill the database with months of history to look at: agents in various states, payees of all states, policy "
        "revisions, decisions with valid hash chains and signatures, payments that settled, failed or hang, deposits, "
        "withdrawals, webhooks that fail, approvals that wait (one looks like a known payee), an alarm. `verify_log` "
        "passes afterwards. Another run adds more agents. The payments never were on a chain: do not run it where real "
        "money is paid."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--payments", type=int, default=10_000, metavar="N", help="Decisions to make (default: 10000)."
        )
        parser.add_argument("--seed", type=int, metavar="N", help="Make the same cast and amounts again.")
        parser.add_argument(
            "--anyway", action="store_true", help="Outside the embedded mode, too, where there are agents already."
        )

    def perform(self, **options: Any) -> dict[str, Any]:
        if options["payments"] < 1:
            raise CommandError("--payments is 1 or more.")
        if not (settings.EMBEDDED or options["anyway"]) and Agent.objects.exists():
            raise CommandError("There are agents here: real ones, perhaps. With --anyway the history is added to them.")
        bar = _Bar(options["payments"])
        agents = seed_history(options["payments"], bar.draw, seed=options["seed"])
        took_s = bar.end()
        return {
            "agents": len(agents),
            "entries": options["payments"],
            "seconds": round(took_s, 1),
            "perSecond": round(options["payments"] / took_s),
        }


class _Bar:
    """A progress bar on stderr: one line that is redrawn, or a line now and then where nobody looks."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._began_at = self._drawn_at = time.monotonic()
        self._every_s = _REDRAWN_EVERY_S if sys.stderr.isatty() else 10

    def draw(self, done: int) -> None:
        now = time.monotonic()
        if now - self._drawn_at >= self._every_s:
            self._drawn_at = now
            self._write(done, now - self._began_at)

    def end(self) -> float:
        """Fill the bar; returns the seconds that it took."""
        took_s = time.monotonic() - self._began_at
        self._write(self._total, took_s)
        sys.stderr.write("\n" if sys.stderr.isatty() else "")
        return took_s

    def _write(self, done: int, took_s: float) -> None:
        filled = _BAR * done // self._total
        rate = done / took_s
        left_s = (self._total - done) / rate if rate else 0
        line = f"[{'#' * filled:.<{_BAR}}] {done:,} of {self._total:,}, {rate:,.0f} a second, {left_s:.0f} s left"
        sys.stderr.write(f"\r{line}\033[K" if sys.stderr.isatty() else f"{line}\n")

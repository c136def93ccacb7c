"""`manage.py archive --to DIRECTORY [--older-than DAYS] [--dry-run]`."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from foundation.commands import JsonCommand
from foundation.kernel.times import format_instant, utc_now
from foundation.progress_bar import ProgressBar
from operators.archiving.operations import LEAST_AGE, archive, count_rows


class Command(JsonCommand):
    help = (
        "Write what is old and over into files, and remove it from the database: events that were told to payees, with "
        "all attempts, changes of transactions' states, staff's sessions. Never decisions, payments, balances or the "
        "audit. A run that was cut off is finished by the next one."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--to", type=Path, required=True, metavar="DIRECTORY", help="Where the files go.")
        parser.add_argument(
            "--older-than", type=int, metavar="DAYS", help=f"At least {LEAST_AGE.days}; by default RETENTION_DAYS."
        )
        parser.add_argument("--dry-run", action="store_true", help="Only count.")

    def perform(self, **options: Any) -> dict[str, Any]:
        days = options["older_than"] if options["older_than"] is not None else settings.RETENTION_DAYS
        if days is None:
            raise CommandError("Say --older-than DAYS, or set RETENTION_DAYS: without it, everything is kept.")
        if days < LEAST_AGE.days:
            raise CommandError(f"--older-than is at least {LEAST_AGE.days} days.")
        before = utc_now() - timedelta(days=days)
        rows = count_rows(before)
        told = {"before": format_instant(before), "rows": rows}
        if options["dry_run"]:
            return {**told, "isDryRun": True}
        bar = ProgressBar(sum(rows.values()))
        try:
            done = archive(options["to"], before, bar.draw)
        except OSError as error:
            message = f"The archive cannot be written, and nothing is removed that is not in it: {error}"
            raise CommandError(message) from error
        bar.end()
        return {**told, **done}

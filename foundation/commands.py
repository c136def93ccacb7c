"""The base of the management commands: each prints one JSON object as its last line."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import ProgrammingError
from psycopg.errors import UndefinedTable

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import AmountError, parse_amount

AUTHOR = "command line"


class JsonCommand(BaseCommand):
    """A command that performs one operation and prints its result, or a refusal in a sentence, with status 1.

    One that prints what it does in lines of its own has no result.
    """

    # What is missing, `manage.py` refuses; Django's checks load what only pages need.
    requires_system_checks = ()

    def perform(self, **options: Any) -> dict[str, Any] | None:
        """Do the work; return what the last line says; None: it has said all."""
        raise NotImplementedError

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            result = self.perform(**options)
        except OperationRefused as error:
            raise CommandError(str(error)) from error
        except ProgrammingError as error:
            if isinstance(error.__cause__, UndefinedTable):
                raise CommandError("The database has no tables yet: `release` makes them (see Procfile).") from error
            raise
        if result is not None:
            self.stdout.write(json.dumps(result, ensure_ascii=False))


def read_amount(text: str, asset: str, option: str) -> Any:
    """Read an option's amount; 0 is an amount.

    Raises:
        CommandError: names the option.
    """
    try:
        return parse_amount(text, Asset(asset), allow_zero=True)
    except AmountError as error:
        raise CommandError(f"{option}: {error}") from error


def add_reason(parser: CommandParser, *, is_needed: bool = False) -> None:
    """Add the option that says why something is changed; the audit keeps it."""
    parser.add_argument("--reason", default="", required=is_needed, metavar="R", help="Why; kept in the audit.")

"""`manage.py change KIND [NAME=VALUE …] --reason R`."""

from argparse import RawDescriptionHelpFormatter
from collections.abc import Iterator
from textwrap import fill
from typing import Any

from django.core.management.base import CommandError, CommandParser

from foundation.commands import AUTHOR, JsonCommand, add_reason
from foundation.kernel.blanks import is_blank
from staff.commands import read_arguments
from staff.kinds import Kind, kinds_of_a_shell, make


class Command(JsonCommand):
    help = "Make a change as the console makes it: the same checks, the same operation, the same entry in the audit."

    def add_arguments(self, parser: CommandParser) -> None:
        kinds = kinds_of_a_shell()
        parser.formatter_class = RawDescriptionHelpFormatter
        parser.epilog = "\n".join(["kinds:", *(line for kind in kinds.values() for line in _describe(kind))])
        parser.add_argument("kind", metavar="KIND", choices=list(kinds), help="What is changed; listed below.")
        parser.add_argument("arguments", metavar="NAME=VALUE", nargs="*", help="What the kind takes.")
        add_reason(parser, is_needed=True)

    def perform(self, **options: Any) -> dict[str, Any]:
        kind = kinds_of_a_shell()[options["kind"]]
        if is_blank(options["reason"]):
            raise CommandError("Give a reason.")
        arguments = read_arguments(kind, options["arguments"])
        return {"kind": kind.name, "done": make(kind.name, arguments, by=AUTHOR, reason=options["reason"])}


def _describe(kind: Kind) -> Iterator[str]:
    yield f"  {kind.name}: {kind.title}"
    for name, argument in (kind.takes or {}).items():
        shown = f"{name}=" if argument.is_needed else f"[{name}=]"
        yield fill(f"{shown} {argument.says}", 100, initial_indent=" " * 6, subsequent_indent=" " * 10)

"""Doors of a shell to the changes of `kinds`: each makes the very change that the console makes."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser

from foundation.commands import AUTHOR, JsonCommand, add_reason
from staff.kinds import Argument, Kind, find_kind, make


class OfKind(JsonCommand):
    """An old name of `change KIND`, with a last line of its own.

    `subject`: the name that the kind's one argument has here, and the one that it has there; none: it takes nothing.
    `show`: gives the last line once the change is made.
    """

    kind: str
    subject: tuple[str, str] | tuple[()] = ("id", "agent")
    reason_is_needed = False
    show: Callable[..., dict[str, Any]]

    def add_arguments(self, parser: CommandParser) -> None:
        if self.subject:
            name, argument = self.subject
            parser.add_argument(name, help=takes(self.kind)[argument].says)
        add_reason(parser, is_needed=self.reason_is_needed)

    def perform(self, **options: Any) -> dict[str, Any]:
        arguments = {}
        if self.subject:
            name, argument = self.subject
            arguments[argument] = takes(self.kind)[argument].read(options[name])
        make(self.kind, arguments, by=AUTHOR, reason=options["reason"])
        return self.show(*arguments.values())


def takes(kind: str) -> Mapping[str, Argument]:
    """Give the arguments of a kind, by name."""
    return find_kind(kind).takes or {}


def read_arguments(kind: Kind, written: list[str]) -> dict[str, Any]:
    """Read the arguments of a kind from `NAME=VALUE`.

    Raises:
        CommandError: one is unknown, missing, there twice, or not of its form.
        OperationRefused: a reader refuses a value.
    """
    known, arguments = takes(kind.name), dict[str, Any]()
    for number, one in enumerate(written, 1):
        name, equals, text = one.partition("=")
        if not equals or name not in known or name in arguments:
            # What was typed is not repeated: it may be a key.
            raise CommandError(f"Argument {number}: {kind.name} takes {_names(known)}, each once, as NAME=VALUE.")
        try:
            arguments[name] = known[name].read(text)
        except ValueError:
            raise CommandError(f"{name}: {known[name].says}") from None
    if missing := [name for name, argument in known.items() if argument.is_needed and name not in arguments]:
        raise CommandError(f"{kind.name} needs {_names(missing)}.")
    return arguments


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"

"""What the commands that decide on a service share."""

from django.core.management.base import CommandParser


def add_service_arguments(parser: CommandParser, *, needs_reason: bool = False) -> None:
    """Let a command name a service, and say why."""
    parser.add_argument("id", help="The service's id.")
    parser.add_argument("--reason", default="", required=needs_reason, help="Why: it is kept with the decision.")

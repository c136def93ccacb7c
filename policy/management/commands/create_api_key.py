"""`manage.py create_api_key [--agent ID] [--scope S …] [--expires-in S] [--name N]`."""

from typing import Any

from django.core.management.base import CommandParser

from allowance.commands import JsonCommand
from allowance.kernel.times import format_instant
from policy.models import Scope
from policy.operations import create_api_key


class Command(JsonCommand):
    help = (
        "Create an API key and print it; it is not shown again. Without --scope, an unbound key may do everything, and "
        "a key bound to an agent everything except registering services."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", metavar="ID", help="Bind the key to this agent.")
        parser.add_argument("--scope", nargs="+", action="extend", choices=Scope.values, help="What it permits.")
        parser.add_argument(
            "--expires-in", type=int, metavar="SECONDS", help="Its lifetime; by default, until revoked."
        )
        parser.add_argument("--name", default="", help="A name for people.")

    def perform(self, **options: Any) -> dict[str, Any]:
        record, key = create_api_key(
            agent_id=options["agent"],
            scopes=options["scope"],
            expires_in_s=options["expires_in"],
            name=options["name"],
        )
        return {
            "id": record.id,
            "apiKey": key,
            "name": record.name,
            "agentId": record.agent_id,
            "scopes": record.scopes,
            "expiresAt": record.expires_at and format_instant(record.expires_at),
        }

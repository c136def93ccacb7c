"""`manage.py create_api_key [--agent ID] [--scope S …] [--expires-in S] [--name N] [--allow-from CIDR …] …`."""

from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand
from foundation.kernel.times import format_instant
from policy.key_operations import create_api_key
from policy.models import Scope


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
        parser.add_argument(
            "--allow-from", nargs="+", action="extend", default=[], metavar="CIDR",
            help="Accept the key from these addresses only, such as 203.0.113.0/24 or 2001:db8::/32.",
        )  # fmt: skip

        parser.add_argument(
            "--own-payees", action="store_true", help="Let it change no payee but those that it registered itself."
        )

    def perform(self, **options: Any) -> dict[str, Any]:
        record, key = create_api_key(
            agent_id=options["agent"],
            scopes=options["scope"],
            expires_in_s=options["expires_in"],
            name=options["name"],
            address_ranges=options["allow_from"],
            own_payees_only=options["own_payees"],
            by=AUTHOR,
        )
        return {
            "id": record.id,
            "apiKey": key,
            "name": record.name,
            "agentId": record.agent_id,
            "scopes": record.scopes,
            "expiresAt": record.expires_at and format_instant(record.expires_at),
            **({"ownPayeesOnly": True} if record.registers_as else {}),
            **({"allowFrom": record.address_ranges} if record.address_ranges else {}),
        }

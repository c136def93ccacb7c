"""`manage.py revoke_api_key KEY [--reason R]`."""

from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand
from foundation.kernel.times import format_instant
from policy.key_operations import revoke_api_key


class Command(JsonCommand):
    help = "Revoke an API key, at once on every process."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("key", help="Its id (key_…), or the key itself.")
        parser.add_argument("--reason", default="", help="Why, for the audit.")

    def perform(self, **options: Any) -> dict[str, Any]:
        record = revoke_api_key(options["key"], by=AUTHOR, reason=options["reason"])
        return {"id": record.id, "revokedAt": record.revoked_at and format_instant(record.revoked_at)}

"""`manage.py rotate_api_key KEY [--reason R]`."""

from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand
from foundation.kernel.times import format_instant
from policy.key_operations import rotate_api_key
from policy.models import ApiKey


class Command(JsonCommand):
    help = (
        "Replace an API key by a new one that permits the same, and print that; it is not shown again. The old key "
        "ends after 24 hours: both work until then."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("key", help="Its id (key_…), or the key itself.")
        parser.add_argument("--reason", default="", help="Why, for the audit.")

    def perform(self, **options: Any) -> dict[str, Any]:
        record, key = rotate_api_key(options["key"], by=AUTHOR, reason=options["reason"])
        old = ApiKey.objects.get(replaced_by=record)
        return {
            "id": record.id,
            "apiKey": key,
            "expiresAt": record.expires_at and format_instant(record.expires_at),
            "replaces": old.id,
            "replacedEndsAt": old.expires_at and format_instant(old.expires_at),
        }

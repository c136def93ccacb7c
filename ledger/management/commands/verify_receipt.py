"""`manage.py verify_receipt FILE --keys JWKS`: needs no database, no network and no settings."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from foundation.commands import JsonCommand
from foundation.kernel.canonical import read_json
from ledger.receipts import ReceiptError, verify


class Command(JsonCommand):
    help = (
        "Check one exported log entry against the published keys, offline. "
        "Names the first thing that is wrong and ends with status 1."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="One element of `data` of GET /v1/logs, as JSON.")
        parser.add_argument("--keys", type=Path, required=True, help="What /.well-known/allowance-keys.json answered.")

    def perform(self, **options: Any) -> dict[str, Any]:
        receipt, keys = _read(options["file"]), _read(options["keys"])
        if not _is_jwks(keys):
            raise CommandError(f"{options['keys']} is not a JWKS.")
        try:
            verify(receipt, keys["keys"])
        except ReceiptError as error:
            raise CommandError(str(error)) from error
        return {"valid": True, "id": receipt["id"], "keyId": receipt["keyId"]}


def _is_jwks(document: Any) -> bool:
    keys = document.get("keys") if isinstance(document, dict) else None
    return isinstance(keys, list) and all(isinstance(key, dict) for key in keys)


def _read(path: Path) -> Any:
    try:
        return read_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CommandError(f"{path} cannot be read as JSON: {error}") from error

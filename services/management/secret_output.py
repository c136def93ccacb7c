"""How commands show the secrets of a webhook endpoint."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand

from foundation.kernel.times import format_instant


def write_secrets(command: BaseCommand, shown: Mapping[str, datetime | None]) -> list[dict[str, Any]]:
    """Print secrets, each with the moment at which it ends, if it does; return what the last line says of them."""
    for secret, ends_at in shown.items():
        command.stdout.write(secret if ends_at is None else f"{secret}  until {format_instant(ends_at)}")
    return [{"secret": one, "endsAt": at and format_instant(at)} for one, at in shown.items()]

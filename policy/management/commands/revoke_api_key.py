"""`manage.py revoke_api_key KEY [--reason R]`: see `change api_key.revoke`."""

from typing import Any

from django.db.models import Q

from foundation.kernel.times import format_instant
from policy.api_keys import digest
from policy.models import ApiKey
from staff.commands import OfKind


class Command(OfKind):
    help = "Revoke an API key, at once on every process."
    kind = "api_key.revoke"
    subject = ("key", "key")

    def show(self, *subject: str) -> dict[str, Any]:
        (key,) = subject
        record = ApiKey.objects.get(Q(pk=key) | Q(digest=digest(key)))
        return {"id": record.id, "revokedAt": record.revoked_at and format_instant(record.revoked_at)}

"""The wire form of an API key, without the key itself. Source: docs/contract.md, "Reading"."""
# ruff: noqa: N815 - JSON names

from typing import Any

from django.conf import settings
from rest_framework import serializers

from foundation.kernel.times import format_instant
from policy.models import ApiKey, Scope


class KeySerializer(serializers.Serializer):
    """Response of `GET /v1/me`."""

    keyId = serializers.CharField()
    name = serializers.CharField(allow_blank=True)
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Scope.values))
    agentId = serializers.CharField(allow_null=True, help_text="The agent that it is bound to; null: to none.")
    ownPayeesOnly = serializers.BooleanField(help_text="True: it changes no payee that another key registered.")
    createdAt = serializers.CharField()
    expiresAt = serializers.CharField(allow_null=True, help_text="Null: never.")
    requestsPerMinute = serializers.IntegerField(help_text="More are refused with 429.")


def present_key(key: ApiKey) -> dict[str, Any]:
    """Shape a key for whoever has it."""
    return {
        "keyId": key.id,
        "name": key.name,
        "scopes": key.scopes,
        "agentId": key.agent_id,
        "ownPayeesOnly": key.registers_as is not None,
        "createdAt": format_instant(key.created_at),
        "expiresAt": key.expires_at and format_instant(key.expires_at),
        "requestsPerMinute": settings.RATE_LIMIT_PER_MINUTE,
    }

"""The wire form of an API key, without the key itself. Source: docs/contract.md, "Reading"."""
# ruff: noqa: N815 - JSON names

from typing import Any, Protocol

from django.conf import settings
from rest_framework import serializers

from foundation.kernel.errors import OperationRefused, PolicySignerUnavailable
from foundation.kernel.times import format_instant
from policy.limit_kinds import FLAG, NUMBERS, PAYEES, TAGS
from policy.models import ApiKey, Scope
from policy.more_limits import NO_MORE, PARTS, MoreLimits, given


class OptionalLimitsSerializer(serializers.Serializer):
    """The optional limits of a policy, each a member if the policy has it."""

    def get_fields(self) -> dict[str, Any]:
        """Make a field of each part."""
        fields = dict(super().get_fields())
        for part in PARTS:
            options: dict[str, Any] = {"required": False, "help_text": part.help}
            if part.kind in NUMBERS:
                fields[part.name] = serializers.IntegerField(**options)
            elif part.kind is FLAG:
                fields[part.name] = serializers.BooleanField(**options)
            elif part.kind is PAYEES:
                fields[part.name] = serializers.DictField(child=serializers.DictField(), **options)
            elif part.kind is TAGS:
                fields[part.name] = serializers.ListField(child=serializers.CharField(), **options)
            else:
                fields[part.name] = serializers.CharField(**options)
        return fields


class HasLimits(Protocol):
    """A policy, wherever it was read."""

    @property
    def more(self) -> MoreLimits: ...


def limits_to_show(policy: HasLimits) -> MoreLimits:
    """Return the optional limits of a policy.

    Raises:
        PolicySignerUnavailable: only a later release knows one of them.
    """
    try:
        return policy.more
    except OperationRefused as error:
        raise PolicySignerUnavailable(str(error)) from error


def present_limits(more: MoreLimits) -> dict[str, Any]:
    """Shape the optional limits that there are."""
    return {part.name: part.kind.json(value) for part, value in given(more)}


class LevelSerializer(serializers.Serializer):
    """An agent above the one that pays, whose limit or status it is."""

    agentId = serializers.CharField()
    policyRevision = serializers.CharField(help_text="The revision of its policy.")


class KeySerializer(OptionalLimitsSerializer):
    """Response of `GET /v1/me`. Of a bound key, it has the optional limits of its agent's policy, too."""

    keyId = serializers.CharField()
    name = serializers.CharField(allow_blank=True)
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Scope.values))
    agentId = serializers.CharField(allow_null=True, help_text="The agent that it is bound to; null: to none.")
    ownPayeesOnly = serializers.BooleanField(help_text="True: it changes no payee that another key registered.")
    createdAt = serializers.CharField()
    expiresAt = serializers.CharField(allow_null=True, help_text="Null: never.")
    requestsPerMinute = serializers.IntegerField(help_text="More are refused with 429.")


def present_key(key: ApiKey, more: MoreLimits = NO_MORE) -> dict[str, Any]:
    """Shape a key for whoever has it; `more` are the optional limits of its agent."""
    return {
        "keyId": key.id,
        "name": key.name,
        "scopes": key.scopes,
        "agentId": key.agent_id,
        "ownPayeesOnly": key.registers_as is not None,
        "createdAt": format_instant(key.created_at),
        "expiresAt": key.expires_at and format_instant(key.expires_at),
        "requestsPerMinute": settings.RATE_LIMIT_PER_MINUTE,
        **present_limits(more),
    }

"""The wire form of a service. Source: docs/interface-specification.md, "Service"; docs/contract.md, "Services"."""

import re

from django.conf import settings
from rest_framework import serializers

from chains.addresses import RecipientError, looks_like_an_address, parse_recipient
from foundation.api.fields import FilterField, NameField, StrictCharField
from foundation.api.paging import DEFAULT_PAGE_SIZE, PageSizeField
from foundation.kernel.assets import Asset
from foundation.kernel.times import format_instant
from services.models import Service
from services.webhooks.url_checks import WebhookUrlError, check_webhook_url

_SERVICE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}", re.ASCII)


class RegistrationSerializer(serializers.Serializer):
    """Request of `POST /v1/services`."""

    id = StrictCharField(max_length=128)
    name = NameField(max_length=200)
    recipient = StrictCharField(max_length=200)
    asset = serializers.ChoiceField(choices=list(Asset))
    webhookUrl = StrictCharField(max_length=2048, required=False, allow_null=True)  # noqa: N815 - JSON name

    def validate_id(self, value: str) -> str:
        if not _SERVICE_ID.fullmatch(value):
            raise serializers.ValidationError(
                "Must start with a letter or digit and hold only letters, digits and . _ : / @ + -"
            )
        if looks_like_an_address(value):
            raise serializers.ValidationError("Must not look like a wallet address.")
        return value

    def validate_recipient(self, value: str) -> str:
        try:
            parse_recipient(value)
        except RecipientError as error:
            raise serializers.ValidationError(str(error)) from error
        return value

    def validate_webhookUrl(self, value: str | None) -> str | None:  # noqa: N802 - JSON name
        try:
            return value if value is None else check_webhook_url(value, allow_loopback=settings.WEBHOOKS_ALLOW_PRIVATE)
        except WebhookUrlError as error:
            raise serializers.ValidationError(str(error)) from error


class ServiceSerializer(serializers.Serializer):
    """A service as it is shown, without the webhook URL."""

    id = serializers.CharField()
    name = serializers.CharField()
    recipient = serializers.CharField(help_text="Exactly as it was sent.")
    asset = serializers.ChoiceField(choices=list(Asset))
    status = serializers.ChoiceField(choices=["pending_approval", "approved", "rejected", "disabled"])
    createdAt = serializers.CharField()  # noqa: N815 - JSON name


class ServiceQuerySerializer(serializers.Serializer):
    """Query of `GET /v1/services`."""

    agentId = FilterField()  # noqa: N815 - JSON name
    limit = PageSizeField(required=False, default=DEFAULT_PAGE_SIZE)
    cursor = FilterField()


class ServicePageSerializer(serializers.Serializer):
    """Response of `GET /v1/services`."""

    data = ServiceSerializer(many=True)  # type: ignore[assignment]
    nextCursor = serializers.CharField(allow_null=True, help_text="Null on the last page.")  # noqa: N815 - JSON name


def ids_in_path(text: str) -> list[str]:
    """Tell which services the end of a path can name: an id may end with a slash, and so may every address."""
    return [name for name in dict.fromkeys((text, text.removesuffix("/"))) if _SERVICE_ID.fullmatch(name)]


def show_service(service_id: str) -> dict[str, str]:
    """Present a service that there is."""
    return present_service(Service.objects.get(pk=service_id))


def present_service(service: Service) -> dict[str, str]:
    """Shape a service as the specification shows it."""
    return {
        "id": service.id,
        "name": service.name,
        "recipient": service.recipient,
        "asset": service.asset,
        "status": service.status,
        "createdAt": format_instant(service.created_at),
    }

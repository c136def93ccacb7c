"""Wire forms of a request for a payment and of its answer.

Source: docs/interface-specification.md, "Payment request" and "Payment"; docs/contract.md, "Payment request".
"""
# ruff: noqa: N815 - JSON names

from typing import Any

from rest_framework import serializers

from foundation.api.fields import StrictCharField, TextField
from foundation.kernel.assets import Asset
from foundation.kernel.canonical import canonical_json
from foundation.kernel.money import AmountError, parse_amount

MAX_METADATA_BYTES = 16 * 1024
MAX_METADATA_DEPTH = 10
MAX_REASON_LENGTH = 1000


class MetadataField(serializers.Field):
    """A JSON object of at most 16 KiB in compact UTF-8, its containers nested at most 10 deep."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise serializers.ValidationError("Must be an object.")
        if depth_of(data) > MAX_METADATA_DEPTH:
            raise serializers.ValidationError(f"Must not nest deeper than {MAX_METADATA_DEPTH} levels.")
        if len(canonical_json(data)) > MAX_METADATA_BYTES:
            raise serializers.ValidationError("Must not be larger than 16 KiB.")
        return data


class PaymentRequestSerializer(serializers.Serializer):
    """Request of `POST /v1/payments/request`."""

    agentId = StrictCharField(max_length=255)
    service = StrictCharField(max_length=255)
    amount = StrictCharField(
        help_text='Decimal string in units of the asset, such as "0.50".',
        error_messages={"invalid": 'Must be a plain decimal string such as "0.50".'},
    )
    asset = serializers.ChoiceField(choices=list(Asset))
    reason = TextField()
    metadata = MetadataField(required=False, allow_null=True)

    def validate_reason(self, value: str) -> str:
        if len(value.strip()) > MAX_REASON_LENGTH:
            raise serializers.ValidationError(f"Must not be longer than {MAX_REASON_LENGTH} characters.")
        return value

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        try:
            attrs["parsed_amount"] = parse_amount(attrs["amount"], Asset(attrs["asset"]))
        except AmountError as error:
            raise serializers.ValidationError({"amount": str(error)}) from error
        return attrs


class PaymentSerializer(serializers.Serializer):
    """Response of `POST /v1/payments/request`."""

    id = serializers.CharField()
    status = serializers.ChoiceField(choices=["approved"])
    amount = serializers.CharField(help_text="Exactly as it was written.")
    asset = serializers.ChoiceField(choices=list(Asset))
    service = serializers.CharField()
    tx = serializers.CharField(help_text="The chain's own transaction id.")
    policyRevision = serializers.CharField()
    spentToday = serializers.CharField(help_text="Spend in the rolling 24-hour window after this payment.")
    createdAt = serializers.CharField()


def depth_of(value: Any) -> int:
    """Count the levels of containers in a value of JSON."""
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0

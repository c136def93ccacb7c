"""A request for a payment as it is sent, and its answer: their wire forms, and who may ask for what.

Source: docs/interface-specification.md, "Payment request" and "Payment"; docs/contract.md, "Payment request".
"""
# ruff: noqa: N815 - JSON names

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request

from foundation.api.fields import StrictCharField, TextField
from foundation.api.idempotency import idempotency_key_of
from foundation.kernel.assets import Asset
from foundation.kernel.canonical import canonical_json, fingerprint
from foundation.kernel.errors import InsufficientScope
from foundation.kernel.money import AmountError, parse_amount
from foundation.telemetry.context import current_ids, note
from payments.deciding.requests import PaymentRequest
from policy.authentication import may_act_for
from policy.callers import Caller

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


class HeldPaymentSerializer(PaymentSerializer):
    """Response of `POST /v1/payments/request` and `/v1/payments/x402` where a person has to approve the payment."""

    status = serializers.ChoiceField(choices=["pending_approval"])
    tx = serializers.CharField(allow_null=True, help_text="Always null: nothing is signed.")
    spentToday = serializers.CharField(help_text="Spend in the rolling 24-hour window, this payment included.")
    rule = serializers.CharField(help_text="The rule that asks for a person's approval.")
    message = serializers.CharField(help_text="Why, in a sentence for people.")
    approvalExpiresAt = serializers.CharField(help_text="What nobody has approved by then is refused.")


def depth_of(value: Any) -> int:
    """Count the levels of containers in a value of JSON."""
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


# Stateless, so one instance serves all requests; building its fields would take a tenth of each request's time.
PAYMENT_REQUEST = PaymentRequestSerializer()


def read_payment_request(request: Request, body: dict[str, Any], caller: Caller) -> PaymentRequest:
    """Check the form of a request.

    Raises:
        IdempotencyKeyRequired, InvalidRequest: the key or the body is not well-formed.
        InsufficientScope: the caller's key is bound to another agent.
    """
    key = idempotency_key_of(request)
    return make_request(body, PAYMENT_REQUEST.run_validation(body), caller, key)


def read_evaluation(body: dict[str, Any], caller: Caller) -> PaymentRequest:
    """Check the form of a request that is only evaluated: it has no idempotency key. Raises as above."""
    return make_request(body, PAYMENT_REQUEST.run_validation(body), caller, "")


def make_request(body: dict[str, Any], data: dict[str, Any], caller: Caller, key: str) -> PaymentRequest:
    """Make the request of a body as it was sent, and as it was read.

    Raises:
        InsufficientScope: the caller's key is bound to another agent.
    """
    if not may_act_for(caller, data["agentId"]):
        raise InsufficientScope
    note(agentId=data["agentId"], service=data["service"])
    metadata = data.get("metadata")
    return PaymentRequest(
        agent_id=data["agentId"],
        service=data["service"],
        amount=data["parsed_amount"],
        amount_text=data["amount"],
        asset=Asset(data["asset"]),
        reason=data["reason"],
        metadata_json=None if metadata is None else canonical_json(metadata).decode(),
        idempotency_key=key,
        fingerprint=fingerprint(body),
        caller=caller if caller.unverified else None,
        ids=current_ids(),
        asked_with=caller.key_id,
    )

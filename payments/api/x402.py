"""`POST /v1/payments/x402`: pay what a payee's 402 asks for. Source: docs/contract.md, "x402"."""
# ruff: noqa: N815 - JSON names

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings
from rest_framework import serializers
from rest_framework.request import Request

from chains.catalogue import ServedChain, Vm
from foundation.api.fields import StrictCharField, TextField
from foundation.api.idempotency import idempotency_key_of
from foundation.kernel.canonical import canonical_json, fingerprint
from foundation.kernel.money import format_amount, from_base_units
from payments.api.payment_requests import (
    MAX_METADATA_DEPTH,
    MetadataField,
    PaymentRequestSerializer,
    PaymentSerializer,
    depth_of,
    make_request,
)
from payments.api.views import PaymentViewSet
from payments.deciding.requests import Demand, PaymentRequest
from policy.authentication import caller_of

PATH = "/v1/payments/x402"
MAX_REQUIREMENTS_BYTES = 8 * 1024
# Below that, the answer would hardly reach the payee's facilitator in time.
LEAST_TIMEOUT_S = 10
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)
_UNITS = re.compile(r"[1-9][0-9]{0,25}", re.ASCII)
_BY_AUTHORIZATION = (None, "eip3009")


class RequirementsField(serializers.Field):
    """One element of the `accepts` of a 402, of x402's version 2. Its value is what was sent."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise serializers.ValidationError("Must be an object: one element of the 402's accepts.")
        if depth_of(data) > MAX_METADATA_DEPTH or len(canonical_json(data)) > MAX_REQUIREMENTS_BYTES:
            raise serializers.ValidationError(
                f"Must not be larger than {MAX_REQUIREMENTS_BYTES // 1024} KiB, nor nest deeper than "
                f"{MAX_METADATA_DEPTH} levels."
            )
        if problem := _find_problem(data):
            raise serializers.ValidationError(problem)
        return data


class DemandedPaymentSerializer(serializers.Serializer):
    """Request of `POST /v1/payments/x402`."""

    agentId = StrictCharField(max_length=255)
    service = StrictCharField(max_length=255)
    paymentRequirements = RequirementsField()
    reason = TextField()
    metadata = MetadataField(required=False, allow_null=True)

    validate_reason = PaymentRequestSerializer.validate_reason

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        asked = attrs["paymentRequirements"]
        served = _served(asked["network"])
        assets = {address.lower(): asset for asset, address in served.tokens.items()} if served else {}
        asset = assets.get(asked["asset"].lower())
        if asset is None:
            raise serializers.ValidationError({"paymentRequirements": "No asset on this network is served here."})
        attrs["parsed_amount"] = from_base_units(int(asked["amount"]), asset)
        return attrs | {"asset": asset, "amount": format_amount(attrs["parsed_amount"])}


class DemandedPaymentAnswerSerializer(PaymentSerializer):
    """Response of `POST /v1/payments/x402`."""

    tx = serializers.CharField(allow_null=True, help_text="Null: the payee's facilitator will submit it.")
    paymentPayload = serializers.DictField(
        help_text="x402's PaymentPayload: send it to the payee as Base64 in the header PAYMENT-SIGNATURE."
    )


_REQUEST = DemandedPaymentSerializer()


class DemandedPaymentViewSet(PaymentViewSet):
    """Decides as its base does; what is approved is authorized, and not submitted."""

    body_form = _REQUEST

    def read(self, request: Request) -> PaymentRequest:
        """Read what is asked for. Raises as `read_payment_request` does."""
        key, data = idempotency_key_of(request), _REQUEST.run_validation(self.body)
        asked = make_request(self.body, data, caller_of(request), key)
        # The same key may not be used here and for a payment that we submit.
        return replace(asked, fingerprint=fingerprint([PATH, self.body]), demand=Demand.of(data["paymentRequirements"]))


def _served(network: str) -> ServedChain | None:
    served: ServedChain | None = settings.CHAINS.get(network)
    return served if served is not None and served.chain.vm is Vm.EVM else None


def _find_problem(asked: Mapping[str, Any]) -> str | None:
    """Say in a sentence what is wrong with the form of requirements; None: nothing."""
    network, seconds, extra = asked.get("network"), asked.get("maxTimeoutSeconds"), asked.get("extra")
    extra = extra if isinstance(extra, dict) else {}
    is_served = isinstance(network, str) and _served(network) is not None
    is_long_enough = type(seconds) is int and seconds >= LEAST_TIMEOUT_S
    checks = (
        (asked.get("scheme") == "exact", "scheme must be exact."),
        (is_served, "network must be an EVM chain that is served here, as CAIP-2."),
        (_matches(_ADDRESS, asked.get("asset")), "asset must be an address: 0x and 40 hex digits."),
        (_matches(_ADDRESS, asked.get("payTo")), "payTo must be an address: 0x and 40 hex digits."),
        (_matches(_UNITS, asked.get("amount")), "amount must be a string: base units of the asset, more than 0."),
        (is_long_enough, f"maxTimeoutSeconds must be an integer, and at least {LEAST_TIMEOUT_S}."),
        (
            all(isinstance(extra.get(one), str) for one in ("name", "version")),
            "extra must have the name and the version of the asset's EIP-712 domain.",
        ),
        (extra.get("assetTransferMethod") in _BY_AUTHORIZATION, "extra.assetTransferMethod must be eip3009."),
    )
    return next((problem for is_right, problem in checks if not is_right), None)


def _matches(pattern: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None

"""Wire forms of payments that are read: one, a page of them, a proof, and the query.

Source: docs/contract.md, "Reading".
"""
# ruff: noqa: N815 - JSON names

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

from rest_framework import serializers

from foundation.api.fields import FilterField
from foundation.api.idempotency import IdempotencyKeyField
from foundation.api.paging import DEFAULT_PAGE_SIZE, PageSizeField
from foundation.kernel.assets import Asset
from foundation.kernel.money import AmountError, parse_number
from foundation.kernel.times import format_instant, parse_instant
from payments.holding.states import HeldState
from payments.lifecycle import HeldStatus, PaymentStatus, SettlementState
from payments.payment_states import PayingTransaction, PaymentState

_STATUSES = [status.value for status in PaymentStatus]
# Those of payments that a person has to approve, too.
_ALL_STATUSES = [*_STATUSES, *(status.value for status in HeldStatus)]


class PaymentQuerySerializer(serializers.Serializer):
    """Query of `GET /v1/payments`. Its values are those of `PaymentFilters`."""

    agentId = FilterField()
    service = FilterField()
    status = serializers.ChoiceField(choices=_ALL_STATUSES, required=False)
    amount = FilterField()
    since = FilterField()
    idempotencyKey = IdempotencyKeyField()
    limit = PageSizeField(required=False, default=DEFAULT_PAGE_SIZE)
    cursor = FilterField()

    def validate_amount(self, value: str) -> Decimal:
        try:
            return parse_number(value)
        except AmountError as error:
            raise serializers.ValidationError(str(error)) from error

    def validate_since(self, value: str) -> datetime:
        try:
            return parse_instant(value)
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error


class TransactionSerializer(serializers.Serializer):
    """One transaction that a payment had."""

    tx = serializers.CharField()
    state = serializers.ChoiceField(choices=[state.value for state in SettlementState])
    createdAt = serializers.CharField()


class PaymentStateSerializer(serializers.Serializer):
    """Response of `GET /v1/payments/{id}`: the members of the request's answer, then the rest."""

    id = serializers.CharField()
    status = serializers.ChoiceField(choices=_ALL_STATUSES)
    amount = serializers.CharField(help_text="Exactly as it was written.")
    asset = serializers.ChoiceField(choices=list(Asset))
    service = serializers.CharField()
    tx = serializers.CharField(
        allow_null=True,
        help_text="The newest transaction. Null: its payee takes it (x402), and has not yet; or it is not approved.",
    )
    policyRevision = serializers.CharField()
    spentToday = serializers.CharField(help_text="Spend in the rolling 24-hour window after this payment, as answered.")
    createdAt = serializers.CharField()
    agentId = serializers.CharField()
    recipient = serializers.CharField(help_text="CAIP-10, as approved.")
    reason = serializers.CharField()
    metadata = serializers.DictField(allow_null=True)
    finalTx = serializers.CharField(allow_null=True, help_text="The one that settled the payment; null until then.")
    transactions = TransactionSerializer(many=True, help_text="Every transaction it had, newest first.")
    logId = serializers.CharField()
    settledAt = serializers.CharField(allow_null=True)
    failedAt = serializers.CharField(allow_null=True)
    failureReason = serializers.CharField(allow_null=True)
    escrowId = serializers.CharField(allow_null=True, help_text="Null: it is not approved.")
    approvalExpiresAt = serializers.CharField(
        required=False, help_text="Until when a person can approve it. Only where one has to, and has not."
    )
    declinedAt = serializers.CharField(
        required=False, allow_null=True, help_text="When it was refused after all; null: it waits for approval."
    )
    declineReason = serializers.CharField(
        required=False, allow_null=True, help_text="Why it is not paid, in a sentence; null: it waits for approval."
    )


class PaymentPageSerializer(serializers.Serializer):
    """Response of `GET /v1/payments`."""

    data = PaymentStateSerializer(many=True)  # type: ignore[assignment]
    nextCursor = serializers.CharField(allow_null=True, help_text="Null on the last page.")


class ProofSerializer(serializers.Serializer):
    """Response of `GET /v1/payments/{id}/proof`."""

    paymentId = serializers.CharField()
    service = serializers.CharField(help_text="Whom the proof is for: its `aud`.")
    status = serializers.ChoiceField(choices=_STATUSES)
    proof = serializers.CharField(help_text="A compact JWS (RFC 7515).")


def present_payment(payment: PaymentState) -> dict[str, Any]:
    """Shape a payment's current state."""
    return {
        "id": payment.id,
        "status": payment.status,
        "amount": payment.amount,
        "asset": payment.asset,
        "service": payment.service_id,
        "tx": payment.transactions[0].tx if payment.transactions else None,
        "policyRevision": f"polrev_{payment.policy_revision}",
        "spentToday": payment.spent_today,
        "createdAt": format_instant(payment.created_at),
        "agentId": payment.agent_id,
        "recipient": payment.recipient,
        "reason": payment.reason,
        "metadata": None if payment.metadata_json is None else json.loads(payment.metadata_json),
        "finalTx": payment.final_tx,
        "transactions": [_present_transaction(one) for one in payment.transactions],
        "logId": payment.entry_id,
        "settledAt": payment.settled_at and format_instant(payment.settled_at),
        "failedAt": payment.failed_at and format_instant(payment.failed_at),
        "failureReason": payment.failure_reason or None,
        "escrowId": payment.escrow_id,
    }


def present_held(held: HeldState) -> dict[str, Any]:
    """Shape a payment that waits for a person's approval, or was refused after that: it has the members of others."""
    entry, explanation = held.entry, held.entry.explanation
    return {
        "id": held.id,
        "status": held.status,
        "amount": entry.amount,
        "asset": entry.asset,
        "service": entry.service,
        "tx": None,
        "policyRevision": f"polrev_{entry.policy_revision}",
        "spentToday": explanation["spentToday"],
        "createdAt": format_instant(entry.created_at),
        "agentId": entry.agent_id,
        "recipient": explanation["recipient"],
        "reason": entry.reason,
        "metadata": entry.metadata,
        "finalTx": None,
        "transactions": [],
        "logId": (held.end or entry).id,
        **dict.fromkeys(("settledAt", "failedAt", "failureReason", "escrowId")),
        "approvalExpiresAt": explanation["approvalExpiresAt"],
        "declinedAt": held.ended_at and format_instant(held.ended_at),
        "declineReason": held.end and held.end.explanation["message"],
    }


def _present_transaction(one: PayingTransaction) -> dict[str, str]:
    return {"tx": one.tx, "state": one.state, "createdAt": format_instant(one.created_at)}


def present_proof(payment: PaymentState, proof: str) -> dict[str, str]:
    """Shape a proof of payment."""
    return {"paymentId": payment.id, "service": payment.service_id, "status": payment.status, "proof": proof}

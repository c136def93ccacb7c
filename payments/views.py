"""`POST /v1/payments/request`, `GET /v1/payments/{id}`, `GET /readyz`."""

from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from rest_framework.request import Request
from rest_framework.response import Response

from allowance.api.views import ApiViewSet, read_only
from allowance.kernel.assets import Asset
from allowance.kernel.canonical import canonical_json, fingerprint
from allowance.kernel.errors import IdempotencyKeyRequired, InsufficientScope, InvalidRequest, PaymentNotFound
from payments.alarm import alarm
from payments.chains.registry import served_chains
from payments.decisions import answer
from payments.operations import Environment, request_payment
from payments.queries import find_payment, find_unready
from payments.requests import PaymentRequest
from payments.serializers import PaymentRequestSerializer, present_payment
from policy.authentication import caller_of, may_act_for
from policy.signer import local_signer

MAX_IDEMPOTENCY_KEY_LENGTH = 255
# Stateless, so one serves all requests: building its fields anew would cost each a tenth of its time.
_REQUEST = PaymentRequestSerializer()


class PaymentViewSet(ApiViewSet):
    required_scope = "payments"

    def create(self, request: Request) -> Response:
        """Attempt to settle one payment from one agent's allowance."""
        key = read_idempotency_key(request.headers.get("Idempotency-Key", ""))
        data = _REQUEST.run_validation(self.body)
        if not may_act_for(caller_of(request), data["agentId"]):
            raise InsufficientScope
        metadata = data.get("metadata")
        approval = request_payment(
            PaymentRequest(
                agent_id=data["agentId"],
                service=data["service"],
                amount=data["parsed_amount"],
                amount_text=data["amount"],
                asset=Asset(data["asset"]),
                reason=data["reason"],
                metadata_json=None if metadata is None else canonical_json(metadata).decode(),
                idempotency_key=key,
                fingerprint=fingerprint(self.body),
            ),
            payment_environment(),
        )
        headers = {"Location": f"/v1/payments/{approval.entry.payment_id}"}
        if approval.is_replay:
            headers["Idempotent-Replayed"] = "true"
        return Response(answer(approval.entry), status=201, headers=headers)

    def retrieve(self, request: Request, payment_id: str) -> Response:
        """Show a payment's current state and every transaction it had."""
        payment = find_payment(payment_id)
        if payment is None or not may_act_for(caller_of(request), payment.agent_id):
            raise PaymentNotFound
        return Response(present_payment(payment))


def payment_environment() -> Environment:
    """Assemble what decisions depend on in this process."""
    return Environment(
        signer=local_signer(),
        chains=served_chains(),
        max_chain_state_age=timedelta(seconds=settings.CHAIN_STATE_MAX_AGE_S),
        wake=alarm.ring,
    )


def read_idempotency_key(header: str) -> str:
    """Read the header: 1..255 printable ASCII characters, surrounding double quotes stripped.

    Raises:
        IdempotencyKeyRequired: missing or empty.
        InvalidRequest: too long, or not printable ASCII.
    """
    key = header.strip(" \t")
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if not key:
        raise IdempotencyKeyRequired
    if len(key) > MAX_IDEMPOTENCY_KEY_LENGTH or not (key.isascii() and key.isprintable()):
        raise InvalidRequest.of("Idempotency-Key", "Must be 1 to 255 printable ASCII characters.")
    return key


@read_only
def readiness(_request: HttpRequest) -> JsonResponse:
    """Tell whether everything that a payment needs is there; names parts, never addresses or secrets."""
    parts = find_unready()
    is_ready = not any(parts.values())
    return JsonResponse(
        {
            "status": "ready" if is_ready else "not ready",
            "checks": {part: trouble or "ok" for part, trouble in parts.items()},
        },
        status=200 if is_ready else 503,
    )

"""`GET /v1/payments`, `GET /v1/payments/{id}` and `GET /v1/payments/{id}/proof`: always from the primary."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from chains.port import SignerUnavailable
from foundation.api.cursors import read_cursor, write_cursor
from foundation.api.views import ApiViewSet
from foundation.kernel.errors import InvalidRequest, PaymentNotFound, PolicySignerUnavailable
from foundation.kernel.money import format_amount
from foundation.kernel.times import utc_now
from foundation.telemetry.context import note
from payments.api.proofs import make_proof
from payments.api.read_serializers import PaymentQuerySerializer, present_held, present_payment, present_proof
from payments.holding.states import HeldState, find_held, read_held_page
from payments.payment_states import PaymentFilters, PaymentState, find_payment, read_payment_page
from policy.authentication import agent_asked_for, caller_of, may_act_for
from policy.signer import local_signer


class PaymentReadViewSet(ApiViewSet):
    required_scope = "payments"
    queries = {"list": PaymentQuerySerializer()}  # stateless, so one instance serves all requests

    def list(self, request: Request) -> Response:
        """List payments, newest first."""
        query = self.read_query(request)
        filters = read_filters(query, agent_asked_for(caller_of(request), query.get("agentId")))
        bound_to = _as_text(filters)
        before_id = read_cursor(query["cursor"], bound_to) if "cursor" in query else None
        size = query["limit"]
        # In this order: what is approved in between is found twice then, and not missed.
        held = read_held_page(filters, before_id=before_id, size=size + 1)
        payments, has_more = read_payment_page(filters, before_id=before_id, size=size)
        both: dict[str, PaymentState | HeldState] = {one.id: one for one in held}
        both |= {one.id: one for one in payments}
        newest = sorted(both.values(), key=lambda one: one.id, reverse=True)
        has_more = has_more or len(newest) > size
        page = newest[:size]
        next_cursor = write_cursor(page[-1].id, bound_to) if has_more else None
        return Response({"data": [_present(one) for one in page], "nextCursor": next_cursor})

    def retrieve(self, request: Request, payment_id: str) -> Response:
        """Show a payment's current state and every transaction it had."""
        held = find_held(payment_id)
        if held is None or not may_act_for(caller_of(request), held.entry.agent_id):
            return Response(present_payment(_find_own_payment(request, payment_id)))
        note(paymentId=held.id, agentId=held.entry.agent_id)
        return Response(present_held(held))


class PaymentProofViewSet(ApiViewSet):
    required_scope = "payments"

    def retrieve(self, request: Request, payment_id: str) -> Response:
        """State, signed, to the payee how a payment stands now."""
        payment = _find_own_payment(request, payment_id)
        try:
            proof = make_proof(payment, utc_now(), local_signer())
        except SignerUnavailable as error:
            raise PolicySignerUnavailable from error
        return Response(present_proof(payment, proof))


def _present(one: PaymentState | HeldState) -> dict[str, Any]:
    return present_held(one) if isinstance(one, HeldState) else present_payment(one)


def _find_own_payment(request: Request, payment_id: str) -> PaymentState:
    """Find a payment that the caller may know of; raises `PaymentNotFound`."""
    payment = find_payment(payment_id)
    if payment is not None:
        note(paymentId=payment.id, agentId=payment.agent_id)
    if payment is None or not may_act_for(caller_of(request), payment.agent_id):
        raise PaymentNotFound
    return payment


def read_filters(query: dict[str, Any], agent_id: str | None) -> PaymentFilters:
    """Read what is looked for among the payments of an agent, or of all.

    Raises:
        InvalidRequest: an idempotency key of no agent, or an amount of no agent or no service.
    """
    for name in ("idempotencyKey", "amount"):
        if name in query and agent_id is None:
            raise InvalidRequest.of(name, "Is looked for among the payments of one agent: name it as agentId.")
    if "amount" in query and "service" not in query:
        raise InvalidRequest.of("amount", "Is looked for among the payments to one service: name it as service.")
    return PaymentFilters(
        agent_id=agent_id,
        service_id=query.get("service"),
        status=query.get("status"),
        amount=query.get("amount"),
        since=query.get("since"),
        idempotency_key=query.get("idempotencyKey"),
    )


def _as_text(filters: PaymentFilters) -> dict[str, str | None]:
    """Write filters for a cursor: those that mean the same are the same."""
    return {
        "list": "payments",
        "agentId": filters.agent_id,
        "service": filters.service_id,
        "status": filters.status,
        "amount": None if filters.amount is None else format_amount(filters.amount),
        "since": None if filters.since is None else filters.since.isoformat(),
        "idempotencyKey": filters.idempotency_key,
    }

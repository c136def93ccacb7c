"""What the OpenAPI document says of evaluations."""

from decimal import Decimal

from drf_spectacular.utils import OpenApiExample, OpenApiRequest, OpenApiResponse

from foundation.api.openapi import Decorator, ViewDocumentation, describe, refine
from foundation.api.openapi_parts import COMPUTED_AMOUNT, INSTANT, POLICY_REVISION, Description, refer
from foundation.api.openapi_refusals import body_refusals, raised_by
from foundation.kernel.errors import AgentNotFound, InsufficientScope
from payments.api.evaluations import EvaluationSerializer, present_evaluation
from payments.api.openapi_examples import REQUEST, evaluated
from payments.api.payment_requests import PaymentRequestSerializer

refine(
    "payments.api.evaluations.EvaluatedRuleSerializer",
    **dict.fromkeys(("limit", "spent", "requested", "remaining", "headroom"), COMPUTED_AMOUNT),
)
refine("payments.api.evaluations.FeeSerializer", atMost=COMPUTED_AMOUNT)
refine(
    "payments.api.evaluations.EvaluationSerializer",
    code=refer("ErrorCode"),
    allowedAt=INSTANT | {"description": "When the same payment would fit. Null: now, or waiting does not help."},
    policyRevision=POLICY_REVISION,
    evaluatedAt=INSTANT,
)
_LINKS = {
    "payment": {
        "operationId": "requestPayment",
        "requestBody": "$request.body",
        "description": "Request the payment that was evaluated.",
    }
}
DESCRIPTION = Description(links={("evaluatePayment", "200"): _LINKS})


class EvaluationDocumentation(ViewDocumentation):
    target_class = "payments.api.evaluations.EvaluationViewSet"

    def operations(self) -> dict[str, Decorator]:
        faulty = PaymentRequestSerializer(data={**REQUEST, "amount": 0.5})
        request = OpenApiExample("Request", REQUEST, summary="Half a dollar for data")
        evaluation = describe(
            self.target,
            "POST",
            operation_id="evaluatePayment",
            summary="Ask what a payment request would be answered now",
            description="The same rules over the same facts as `requestPayment`, with each rule's figures. Nothing is "
            "decided, logged or held back. Needs the scope `payments`.",
            tags=["Payments"],
            request=OpenApiRequest(PaymentRequestSerializer, examples=[request]),
            responses={200: OpenApiResponse(EvaluationSerializer, "What would be decided.", _examples())},
            causes=[
                raised_by(lambda: faulty.is_valid(raise_exception=True)),
                *body_refusals(),
                InsufficientScope(),
                AgentNotFound(),
            ],
        )
        return {"create": evaluation}


def _examples() -> list[OpenApiExample]:
    would_be, would_not = evaluated(), evaluated(spent_today=Decimal("49.90"))
    return [
        OpenApiExample("Approved", present_evaluation(would_be), summary="It would be approved"),
        OpenApiExample("Blocked", present_evaluation(would_not), summary="It would be blocked"),
    ]

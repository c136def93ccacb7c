"""Describe the operations on services in the OpenAPI document."""

from datetime import UTC, datetime
from typing import Any

from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiRequest,
    OpenApiResponse,
    extend_schema_serializer,
)

from foundation.api.fields import DIRECTION_CONTROLS
from foundation.api.openapi import Decorator, ViewDocumentation, describe, refine
from foundation.api.openapi_parts import CONTROLS, INSTANT, UNSEEN, Description, enumeration
from foundation.api.openapi_refusals import body_refusals, list_refusals, raised_by
from foundation.kernel.assets import Asset
from foundation.kernel.errors import ServiceNotFound
from policy.openapi import EXAMPLE_SERVICE
from services.models import Service, ServiceStatus
from services.serializers import (
    RegistrationSerializer,
    ServicePageSerializer,
    ServiceQuerySerializer,
    ServiceSerializer,
    present_service,
)

REGISTRATION: dict[str, Any] = {
    "id": EXAMPLE_SERVICE,
    "name": "Market data, per request",
    "recipient": "base:0x8c2BD4bb4a413e7D4719c811a309b3Ac5877b474",
    "asset": "USDC",
    "webhookUrl": "https://market-data.example.com/webhooks/allowance",
}
_SERVICE = Service(
    **{name: REGISTRATION[name] for name in ("id", "name", "recipient")},
    asset=Asset.USDC.value,
    status=ServiceStatus.PENDING_APPROVAL.value,
    created_at=datetime(2026, 5, 12, 9, 30, 0, 421000, UTC),
)
# Not blank; neither control characters nor those that control the writing direction.
_UNFIT = CONTROLS + "".join(rf"\u{ord(letter):04x}" for letter in sorted(DIRECTION_CONTROLS))
_NAME = f"^[^{_UNFIT}]*[^{_UNFIT}{UNSEEN}][^{_UNFIT}]*$"
_ID = {"pattern": "^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$"}

refine(
    "services.serializers.RegistrationSerializer",
    id={**_ID, "description": "Chosen by the caller. Nothing that could be mistaken for a wallet address."},
    name={"pattern": _NAME, "description": "For people. A new name does not need a new approval."},
    recipient={
        "pattern": "^[-A-Za-z0-9]+(:[-_a-zA-Z0-9]+)?:[0-9a-zA-Z]+$",
        "description": "`<chain>:<address>`; the chain is an alias (`base`, `solana`, ...) or a CAIP-2 id. Mixed-case "
        "EVM addresses must pass EIP-55; an address on Solana is 32 bytes in base58.",
        "examples": [REGISTRATION["recipient"]],
    },
    asset={"description": "What the service is paid in."},
    webhookUrl={
        "format": "uri",
        "pattern": "^[Hh][Tt][Tt][Pp][Ss]://",
        "description": "Absolute, public host, no user name. Left out of an update it stays as it is; null clears it.",
    },
)
refine(
    "services.serializers.ServiceSerializer",
    id=_ID,
    createdAt=INSTANT,
)
_LINKS = {
    "again": {
        "operationId": "registerService",
        "requestBody": "$request.body",
        "description": "Changes nothing.",
    }
}
_STATUS = enumeration(
    ServiceStatus.values, "Only an approved service is paid. Approval covers recipient, asset and webhook URL."
)
_NEXT = {
    "nextPage": {
        "operationId": "listServices",
        "parameters": {"cursor": "$response.body#/nextCursor", "agentId": "$request.query.agentId"},
        "description": "The page after this one, unless `nextCursor` is null: of the same agent.",
    },
    "service": {"operationId": "getService", "parameters": {"id": "$response.body#/data/0/id"}},
}
DESCRIPTION = Description(
    schemas={"ServiceStatus": _STATUS},
    links={
        **dict.fromkeys([("registerService", "200"), ("registerService", "201")], _LINKS),
        ("listServices", "200"): _NEXT,
    },
)
# The view lists, but what it answers is one object.
extend_schema_serializer(many=False)(ServicePageSerializer)


class ServiceDocumentation(ViewDocumentation):
    target_class = "services.views.ServiceViewSet"

    def operations(self) -> dict[str, Decorator]:
        shown = present_service(_SERVICE)
        updated = {**shown, "name": "Market data", "status": ServiceStatus.APPROVED.value}
        faulty = RegistrationSerializer(
            data={**REGISTRATION, "id": REGISTRATION["recipient"].partition(":")[2], "webhookUrl": "http://localhost/"}
        )
        registration = describe(
            self.target,
            "POST",
            operation_id="registerService",
            summary="Register a payee, or change its registration",
            description="Creates or updates a service by its `id`. Only an approved service is paid: a new one, and "
            "one whose recipient, asset or webhook URL changes, is `pending_approval`. Needs the scope `services`.",
            tags=["Services"],
            request=OpenApiRequest(
                RegistrationSerializer,
                examples=[
                    OpenApiExample("Registration", REGISTRATION, summary="A service that is paid in USDC on Base")
                ],
            ),
            responses={
                200: OpenApiResponse(
                    ServiceSerializer,
                    "The service was known, and is now as sent.",
                    [OpenApiExample("Updated", updated, summary="Only the name is new: still approved")],
                ),
                201: OpenApiResponse(
                    ServiceSerializer,
                    "The service is new, and waits for approval.",
                    [OpenApiExample("Created", shown, summary="A new service")],
                ),
            },
            causes=[raised_by(lambda: faulty.is_valid(raise_exception=True)), *body_refusals()],
        )
        return {"create": registration, "list": self._list(), "retrieve": self._retrieve()}

    def _list(self) -> Any:
        shown = [{**present_service(_SERVICE), "status": ServiceStatus.APPROVED.value}]
        faulty = ServiceQuerySerializer(data={"limit": "0"})
        return describe(
            self.target,
            "GET",
            operation_id="listServices",
            summary="List the services that an agent may pay now",
            description="By id: approved, allowed by the agent's policy, and paid in its asset. Without an agent, all "
            "that are approved. Needs the scope `payments` or `services`.",
            tags=["Services"],
            parameters=[ServiceQuerySerializer],
            responses={
                200: OpenApiResponse(
                    ServicePageSerializer,
                    "A page; `nextCursor`, unless it is null, leads to the one after it.",
                    [OpenApiExample("Page", {"data": shown, "nextCursor": None}, summary="The last page")],
                )
            },
            causes=list_refusals(faulty),
        )

    def _retrieve(self) -> Any:
        return describe(
            self.target,
            "GET",
            operation_id="getService",
            summary="Read one service",
            description="A key without the scope `services` reads the services that its agent may pay. "
            "Needs the scope `payments` or `services`.",
            tags=["Services"],
            parameters=[OpenApiParameter("id", str, "path", description="The service's id. It may hold a slash.")],
            responses={
                200: OpenApiResponse(
                    ServiceSerializer,
                    "The service.",
                    [OpenApiExample("Service", present_service(_SERVICE), summary="It waits for approval")],
                )
            },
            causes=[ServiceNotFound()],
        )

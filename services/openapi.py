"""Describe the operations on services in the OpenAPI document."""

from datetime import UTC, datetime
from typing import Any

from drf_spectacular.utils import OpenApiParameter, OpenApiRequest

from foundation.api.fields import DIRECTION_CONTROLS
from foundation.api.openapi import Operation, answer, describe, example, page_answer, refine
from foundation.api.openapi_parts import CONTROLS, INSTANT, UNSEEN, Description, enumeration, next_page
from foundation.api.openapi_refusals import body_refusals, fault, list_refusals
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
from services.views import ServiceViewSet

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
    RegistrationSerializer,
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
refine(ServiceSerializer, id=_ID, createdAt=INSTANT)
_STATUS = enumeration(
    ServiceStatus.values, "Only an approved service is paid. Approval covers recipient, asset and webhook URL."
)
_AGAIN = {"operationId": "registerService", "requestBody": "$request.body", "description": "Changes nothing."}
_NEXT = {
    "nextPage": next_page("listServices", ["agentId"], of="of the same agent"),
    "service": {"operationId": "getService", "parameters": {"id": "$response.body#/data/0/id"}},
}
DESCRIPTION = Description(
    schemas={"ServiceStatus": _STATUS},
    links={
        ("registerService", "200"): {"again": _AGAIN},
        ("registerService", "201"): {"again": _AGAIN},
        ("listServices", "200"): _NEXT,
    },
)


def _register_service() -> Operation:
    shown = present_service(_SERVICE)
    updated = {**shown, "name": "Market data", "status": ServiceStatus.APPROVED.value}
    faulty = {**REGISTRATION, "id": REGISTRATION["recipient"].partition(":")[2], "webhookUrl": "http://localhost/"}
    return Operation(
        "registerService",
        "Register a payee, or change its registration",
        "Creates or updates a service by its `id`. Only an approved service is paid: a new one, and one whose "
        "recipient, asset or webhook URL changes, is `pending_approval`. Needs the scope `services`.",
        {
            200: answer(
                ServiceSerializer,
                "The service was known, and is now as sent.",
                example("Updated", updated, "Only the name is new: still approved"),
            ),
            201: answer(
                ServiceSerializer,
                "The service is new, and waits for approval.",
                example("Created", shown, "A new service"),
            ),
        },
        causes=[fault(RegistrationSerializer, faulty), *body_refusals()],
        request=OpenApiRequest(
            RegistrationSerializer,
            examples=[example("Registration", REGISTRATION, "A service that is paid in USDC on Base")],
        ),
    )


def _list_services() -> Operation:
    shown = {**present_service(_SERVICE), "status": ServiceStatus.APPROVED.value}
    return Operation(
        "listServices",
        "List the services that an agent may pay now",
        "By id: approved, allowed by the agent's policy, and paid in its asset. Without an agent, all that are "
        "approved. Needs the scope `payments` or `services`.",
        page_answer(ServicePageSerializer, {"data": [shown], "nextCursor": None}),
        causes=list_refusals(ServiceQuerySerializer, {"limit": "0"}),
        parameters=[ServiceQuerySerializer],
    )


def _get_service() -> Operation:
    waiting = example("Service", present_service(_SERVICE), "It waits for approval")
    return Operation(
        "getService",
        "Read one service",
        "A key without the scope `services` reads the services that its agent may pay. Needs the scope `payments` or "
        "`services`.",
        {200: answer(ServiceSerializer, "The service.", waiting)},
        causes=[ServiceNotFound()],
        parameters=[OpenApiParameter("id", str, "path", description="The service's id. It may hold a slash.")],
    )


describe(ServiceViewSet, "Services", create=_register_service, list=_list_services, retrieve=_get_service)

"""`POST /v1/services`, `GET /v1/services` and `GET /v1/services/{id}`."""

from rest_framework.request import Request
from rest_framework.response import Response

from foundation.api.cursors import read_cursor, write_cursor
from foundation.api.views import ApiViewSet
from foundation.database import brief_read
from foundation.kernel.assets import Asset
from foundation.kernel.errors import ServiceNotFound
from policy.authentication import agent_asked_for, caller_of
from policy.models import Scope
from services.models import Service
from services.operations import UNCHANGED, Registration, register_service
from services.payable import payable_services
from services.serializers import (
    RegistrationSerializer,
    ServiceQuerySerializer,
    ids_in_path,
    present_service,
)


class ServiceViewSet(ApiViewSet):
    required_scope = "services"
    scopes_to_read = ("payments", "services")
    # Stateless, so one instance serves all requests.
    queries = {"list": ServiceQuerySerializer()}
    body_form = RegistrationSerializer()

    def create(self, request: Request) -> Response:
        """Create or update a service id mapped to a recipient address."""
        data = self.body_form.run_validation(self.body)
        service, is_new = register_service(
            Registration(
                id=data["id"],
                name=data["name"],
                recipient=data["recipient"],
                asset=Asset(data["asset"]),
                webhook_url=data.get("webhookUrl", UNCHANGED),
            ),
            key_id=caller_of(request).key_id,
        )
        return Response(present_service(service), status=201 if is_new else 200)

    def list(self, request: Request) -> Response:
        """List the services that an agent may pay now, by id; without an agent, all that are approved."""
        query = self.read_query(request)
        agent_id = agent_asked_for(caller_of(request), query.get("agentId"))
        filters = {"list": "services", "agentId": agent_id}
        after = read_cursor(query["cursor"], filters) if "cursor" in query else ""
        size = query["limit"]
        with brief_read():
            page = [*payable_services(agent_id).filter(pk__gt=after).order_by("pk")[: size + 1]]
        shown = page[:size]
        next_cursor = write_cursor(shown[-1].pk, filters) if len(page) > size else None
        return Response({"data": [present_service(service) for service in shown], "nextCursor": next_cursor})

    def retrieve(self, request: Request, service_id: str) -> Response:
        """Show one service: to a key without the scope `services` only one that its agent may pay."""
        caller, ids = caller_of(request), ids_in_path(service_id)
        with brief_read():
            reads_any = Scope.SERVICES in caller.scopes
            known = Service.objects.all() if reads_any else payable_services(caller.agent_id)
            found = known.in_bulk(ids)
        service = next((found[name] for name in ids if name in found), None)
        if service is None:
            raise ServiceNotFound
        return Response(present_service(service))

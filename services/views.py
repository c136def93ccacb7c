"""`POST /v1/services`."""

from rest_framework.request import Request
from rest_framework.response import Response

from allowance.api.views import ApiViewSet
from allowance.kernel.assets import Asset
from policy.authentication import caller_of
from services.operations import UNCHANGED, Registration, register_service
from services.serializers import RegistrationSerializer, present_service


class ServiceViewSet(ApiViewSet):
    required_scope = "services"

    def create(self, request: Request) -> Response:
        """Create or update a service id mapped to a recipient address."""
        serializer = RegistrationSerializer(data=self.body)
        serializer.is_valid(raise_exception=True)
        data = serializer.validated_data
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

"""`GET /v1/me` and `GET /.well-known/allowance-keys.json`."""

from django.http import HttpRequest, JsonResponse
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.api.public_documents import public_document
from foundation.api.views import ApiViewSet
from policy.authentication import caller_of
from policy.models import ApiKey
from policy.more_limits import NO_MORE
from policy.queries import find_revision_in_force
from policy.serializers import limits_to_show, present_key
from policy.signer import published_keys


class MeViewSet(ApiViewSet):
    scopes_to_read = ()

    def retrieve(self, request: Request) -> Response:
        """Show the key that the request is made with: what it permits, and until when."""
        key = ApiKey.objects.get(pk=caller_of(request).key_id)
        revision = None if key.agent_id is None else find_revision_in_force(key.agent_id)
        return Response(present_key(key, NO_MORE if revision is None else limits_to_show(revision)))


@public_document
def allowance_keys(_request: HttpRequest) -> JsonResponse:
    """Publish the policy signer's public keys as a JWKS, for whoever verifies receipts."""
    return JsonResponse(published_keys())

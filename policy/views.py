"""`GET /.well-known/allowance-keys.json`."""

from django.http import HttpRequest, JsonResponse

from allowance.api.views import read_only
from policy.signer import published_keys


@read_only
def allowance_keys(_request: HttpRequest) -> JsonResponse:
    """Publish the policy signer's public keys as a JWKS, for whoever verifies receipts."""
    response = JsonResponse(published_keys())
    response["Cache-Control"] = "public, max-age=300"
    return response

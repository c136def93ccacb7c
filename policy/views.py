"""`GET /.well-known/allowance-keys.json`."""

from django.http import HttpRequest, JsonResponse

from allowance.api.public_documents import public_document
from policy.signer import published_keys


@public_document
def allowance_keys(_request: HttpRequest) -> JsonResponse:
    """Publish the policy signer's public keys as a JWKS, for whoever verifies receipts."""
    return JsonResponse(published_keys())

"""`GET /healthz`, `/readyz` and `/metrics`: answered before host or scheme are checked.

The platform asks from inside.
"""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, JsonResponse

from allowance.api.errors import error_response
from allowance.api.views import read_only
from allowance.kernel.errors import RateLimited
from payments.api.views import metrics, readiness


@read_only
def liveness(_request: HttpRequest) -> JsonResponse:
    """Tell that this process answers."""
    return JsonResponse({"status": "alive"})


PROBES = {"/healthz": liveness, "/readyz": readiness, "/metrics": metrics}


def answer_probes(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Answer the probes, with and without a trailing slash; pass everything else on."""

    def middleware(request: HttpRequest) -> HttpResponse:
        probe = PROBES.get(request.path_info.removesuffix("/"))
        try:
            return get_response(request) if probe is None else probe(request)
        except RateLimited as refusal:
            return error_response(refusal)

    return middleware

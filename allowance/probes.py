"""`GET /healthz`, `/readyz` and `/metrics`: answered before host or scheme are checked.

The platform asks from inside.
"""

import hmac
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from prometheus_client import CONTENT_TYPE_LATEST

from foundation.api.environ import recognise
from foundation.api.errors import error_response
from foundation.api.views import read_only
from foundation.kernel.errors import InvalidApiKey, NotFound
from operators.metrics.exposition import read_metrics
from payments.api.readiness import readiness


@read_only
def liveness(_request: HttpRequest) -> JsonResponse:
    """Tell that this process answers."""
    return JsonResponse({"status": "alive"})


def metrics(request: HttpRequest) -> HttpResponse:
    """Show the metrics to a monitor with the token; if no token is configured, answer 404."""
    if not settings.METRICS_TOKEN:
        return error_response(NotFound())
    return _show_metrics(request)


@read_only
def _show_metrics(request: HttpRequest) -> HttpResponse:
    expected = f"Bearer {settings.METRICS_TOKEN}"
    if not hmac.compare_digest(request.headers.get("Authorization", "").encode(), expected.encode()):
        return error_response(InvalidApiKey())
    recognise(request.META, "monitor")
    return HttpResponse(read_metrics(), content_type=CONTENT_TYPE_LATEST)


PROBES = {"/healthz": liveness, "/readyz": readiness, "/metrics": metrics}


def answer_probes(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Answer the probes, with and without a trailing slash; pass everything else on."""

    def middleware(request: HttpRequest) -> HttpResponse:
        probe = PROBES.get(request.path_info.removesuffix("/"))
        return get_response(request) if probe is None else probe(request)

    return middleware

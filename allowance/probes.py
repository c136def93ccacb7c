"""`GET /healthz`, `/readyz` and `/metrics`: answered before host or scheme are checked.

The platform asks from inside.
"""

import hmac
import time
from collections.abc import Callable
from functools import lru_cache

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from prometheus_client import CONTENT_TYPE_LATEST

from foundation.api.environ import recognise
from foundation.api.errors import error_response
from foundation.api.views import read_only
from foundation.kernel.errors import InvalidApiKey, NotFound
from operators.metrics.exposition import read_metrics
from payments.queries import find_assets_on_chains, find_unready


@read_only
def liveness(_request: HttpRequest) -> JsonResponse:
    """Tell that this process answers."""
    return JsonResponse({"status": "alive"})


@lru_cache(maxsize=1)
def find_unready_lately(_second: int) -> tuple[dict[str, str], list[str]]:
    """Check at most once a second, however often anybody asks; returns the parts, and the assets out of service."""
    return find_unready(), _find_assets_out_of_service()


@read_only
def readiness(_request: HttpRequest) -> JsonResponse:
    """Tell whether everything that a payment needs is ready; names parts, never addresses or secrets."""
    parts, out = find_unready_lately(int(time.monotonic()))
    is_ready = not any(parts.values())
    return JsonResponse(
        {
            "status": "ready" if is_ready else "not ready",
            "checks": {part: trouble or "ok" for part, trouble in parts.items()},
            **({"outOfService": out} if out else {}),
        },
        status=200 if is_ready else 503,
    )


def _find_assets_out_of_service() -> list[str]:
    """Name the assets that are out of service on a chain whose other assets go on: the installation is ready."""
    try:
        return [f"{one.asset} on {one.alias}" for one in find_assets_on_chains() if one.objection]
    except DatabaseError:
        return []


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

"""`GET /readyz`: whether everything that a payment needs is ready."""

import time
from functools import lru_cache

from django.db import DatabaseError
from django.http import HttpRequest, JsonResponse

from foundation.api.views import read_only
from payments.findings.readiness import find_unready
from payments.queries import find_assets_on_chains


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

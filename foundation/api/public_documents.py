"""Documents that anybody may read: without a key, from any origin, compressed, and kept by caches.

Nothing that depends on a key goes through here. Source: docs/contract.md, "Public documents".
"""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from hashlib import sha256
from http import HTTPStatus
from typing import Concatenate, ParamSpec

from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_etags
from django.views.decorators.csrf import csrf_exempt

from foundation.api.views import read_only

_P = ParamSpec("_P")
_METHODS = "GET, HEAD, OPTIONS"
_CACHING = "public, max-age=300"


@dataclass(frozen=True, slots=True)
class PublicDocument:
    """A document in both forms in which it is sent. Make each once per process: compressing costs time."""

    content_type: str
    plain: bytes
    gzipped: bytes
    digest: str

    @classmethod
    def of(cls, content_type: str, content: bytes) -> "PublicDocument":
        """Make a document of its bytes."""
        return cls(content_type, content, gzip.compress(content, mtime=0), sha256(content).hexdigest()[:32])

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer with the form that the client takes, or with 304 if it has it already."""
        is_gzipped = takes_gzip(request.headers.get("Accept-Encoding", ""))
        etag = f'"{self.digest}-gzip"' if is_gzipped else f'"{self.digest}"'
        if _has_already(request, etag):
            response = HttpResponse(status=HTTPStatus.NOT_MODIFIED)
            del response["Content-Type"]
        else:
            response = HttpResponse(self.gzipped if is_gzipped else self.plain, content_type=self.content_type)
            if is_gzipped:
                response["Content-Encoding"] = "gzip"
        response["ETag"] = etag
        patch_vary_headers(response, ["Accept-Encoding"])
        return response


def takes_gzip(accepted: str) -> bool:
    """Tell whether `Accept-Encoding` admits gzip: by its name, or by `*` if it is not named. Weight 0 forbids."""
    weights = weights_of(accepted)
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def weights_of(header: str) -> dict[str, float]:
    """Read a header such as `Accept`: the weight of each thing named, 1 without one, 0 where it cannot be read."""
    found: dict[str, float] = {}
    for part in header.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        weight = next((text[2:] for text in parameters if text.startswith("q=")), "1")
        if name:
            found[name] = float(weight) if weight[:1] in ("0", "1") and weight.replace(".", "", 1).isdecimal() else 0.0
    return found


def _has_already(request: HttpRequest, etag: str) -> bool:
    etags = parse_etags(request.headers.get("If-None-Match", ""))
    return "*" in etags or etag in (one.removeprefix("W/") for one in etags)


def public_document(
    view: Callable[Concatenate[HttpRequest, _P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, _P], HttpResponse]:
    """Let a view be read from any origin and its answers be kept by caches; other methods are refused as ever.

    A browser asks with OPTIONS before a page of another origin sends unusual headers: none of them matters here.
    """
    plain = read_only(view)

    @csrf_exempt  # it changes nothing: there is nothing to forge
    @wraps(view)
    def answer(request: HttpRequest, /, *args: _P.args, **named: _P.kwargs) -> HttpResponse:
        response = plain(request, *args, **named)
        response["Access-Control-Allow-Origin"] = "*"
        if request.method == "OPTIONS":
            response["Access-Control-Allow-Methods"] = _METHODS
            response["Access-Control-Allow-Headers"] = "*"
        elif response.status_code in (HTTPStatus.OK, HTTPStatus.NOT_MODIFIED):
            response["Cache-Control"] = _CACHING
        return response

    return answer

"""Read a request's body: bounded, JSON, an object."""

from typing import Any

from django.http import HttpRequest

from allowance.kernel.canonical import JsonError, read_json
from allowance.kernel.errors import InvalidRequest, PayloadTooLarge, UnsupportedMediaType

MAX_BODY_BYTES = 64 * 1024


def read_object(request: HttpRequest) -> dict[str, Any]:
    """Read the body as one JSON object.

    Raises:
        PayloadTooLarge: over 64 KiB.
        UnsupportedMediaType: a content type other than JSON was declared; parameters and absence are tolerated.
        InvalidRequest: not JSON that we can keep, or not an object.
    """
    length = request.META.get("CONTENT_LENGTH") or "0"
    if length.isdecimal() and int(length) > MAX_BODY_BYTES:
        raise PayloadTooLarge
    if not _is_json(request.content_type or ""):
        raise UnsupportedMediaType
    try:
        value = read_json(_read(request))
    except JsonError as error:
        raise InvalidRequest(str(error), fields=[{"param": "", "message": str(error)}]) from error
    if not isinstance(value, dict):
        raise InvalidRequest.of("", "The body must be a JSON object.")
    return value


def _read(request: HttpRequest) -> bytes:
    is_chunked = "chunked" in request.headers.get("Transfer-Encoding", "").lower()
    # A chunked body has no length beforehand; Django takes that for none at all, the server knows where it ends.
    stream = request.META["wsgi.input"] if is_chunked else request
    body: bytes = stream.read(MAX_BODY_BYTES + 1)
    if len(body) > MAX_BODY_BYTES:
        raise PayloadTooLarge
    return body


def _is_json(content_type: str) -> bool:
    return content_type in ("", "application/json") or content_type.endswith("+json")

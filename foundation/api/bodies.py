"""Read a request's body: bounded, JSON, an object."""

from typing import Any

from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, UnreadablePostError

from foundation.kernel.canonical import JsonError, read_json
from foundation.kernel.errors import InvalidRequest, PayloadTooLarge, UnsupportedMediaType

MAX_BODY_BYTES = 64 * 1024


class LenientRequest(WSGIRequest):
    """A request whose `Content-Type` may have any parameters: bodies and queries are UTF-8 here, whatever they say.

    Django parses it before any of our code runs. It would decode the query by the body's charset, and fail on some
    parameters before any handler can answer.
    """

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        self.content_type = meta.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        self.content_params = {}


def read_object(request: HttpRequest) -> dict[str, Any]:
    """Read the body as one JSON object.

    Raises:
        PayloadTooLarge: over 64 KiB.
        UnsupportedMediaType: a content type other than JSON was declared; parameters and absence are tolerated.
        InvalidRequest: incomplete, not JSON that we can store, or not an object.
    """
    if is_too_large(request):
        raise PayloadTooLarge
    if not _is_json(request.content_type or ""):
        raise UnsupportedMediaType
    try:
        value = read_json(_read(request))
    except (JsonError, UnreadablePostError) as error:
        raise InvalidRequest(str(error), fields=[{"param": "", "message": str(error)}]) from error
    if not isinstance(value, dict):
        raise InvalidRequest.of("", "The body must be a JSON object.")
    return value


def _read(request: HttpRequest) -> bytes:
    body: bytes = request.read(MAX_BODY_BYTES)
    length = request.META.get("CONTENT_LENGTH") or "0"
    if length.isdecimal() and len(body) < int(length):
        raise UnreadablePostError("The body ended before it was complete.")
    return body


def is_too_large(request: HttpRequest, max_bytes: int = MAX_BODY_BYTES) -> bool:
    """Tell whether a body is over a limit. Every body has a length here, also one that was sent in chunks."""
    length = request.META.get("CONTENT_LENGTH") or "0"
    return length.isdecimal() and int(length) > max_bytes


def _is_json(content_type: str) -> bool:
    return content_type in ("", "application/json") or content_type.endswith("+json")

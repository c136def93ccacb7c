"""Give what requests are refused with, for the OpenAPI document: by the code that refuses in life."""

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

from django.core.handlers.wsgi import WSGIRequest
from django.http import QueryDict
from rest_framework.serializers import BaseSerializer

from foundation.api.bodies import read_object
from foundation.api.cursors import read_cursor
from foundation.api.names import check_query
from foundation.kernel.errors import AgentNotFound, InsufficientScope, PayloadTooLarge, UnsupportedMediaType


def raised_by(call: Callable[[], object]) -> Exception:
    """Give the exception that a call ends with: what a real request would be refused with."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is shown or fails the build
        return error
    message = "An example of a refusal was not refused."
    raise AssertionError(message)


def fault(serializer: type[BaseSerializer], sent: dict[str, Any]) -> Exception:
    """Give what a form refuses that does not fit."""
    return raised_by(lambda: serializer(data=sent).is_valid(raise_exception=True))


def body_refusals() -> list[Exception]:
    """Give what a body may be refused with before its members are looked at."""
    body = b'{"amount": 1.50,}'
    malformed = WSGIRequest(
        {
            "REQUEST_METHOD": "POST",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": BytesIO(body),
        }
    )
    return [raised_by(lambda: read_object(malformed)), PayloadTooLarge(), UnsupportedMediaType()]


def query_refusal(parameters: Sequence[Any]) -> Exception:
    """Give what a parameter is refused with that there is not: one that is nearly there, if any is."""
    known = [name for one in parameters if isinstance(one, type) for name in one().fields]
    query = QueryDict(urlencode({known[0].lower() if known else "dryRun": "true"}))
    return raised_by(lambda: check_query(query, known))


def list_refusals(query: type[BaseSerializer], faulty: dict[str, Any]) -> list[Exception]:
    """Give what a list is refused with: for the values of a `faulty` query, its cursor, its agent."""
    return [
        fault(query, faulty),
        raised_by(lambda: read_cursor("damaged", {})),
        InsufficientScope(),
        AgentNotFound(),
    ]

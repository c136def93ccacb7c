"""Describe operations in the OpenAPI document of `/v1`.

Each app does so in its own `openapi.py`, and `allowance.api_document` puts the document together. Examples of refusals
are made by the code that refuses, so that they cannot drift from it. Source: docs/contract.md.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

from drf_spectacular.extensions import (
    OpenApiSerializerExtension,
    OpenApiSerializerFieldExtension,
    OpenApiViewExtension,
)
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_serializer,
    extend_schema_view,
)
from rest_framework.fields import Field, empty
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView

from foundation.api.errors import exception_handler
from foundation.api.openapi_parts import IDEMPOTENCY_KEY, RESPONSE_HEADERS, Json, refer
from foundation.api.openapi_refusals import query_refusal, raised_by
from foundation.api.paging import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, PageSizeField
from foundation.api.views import ApiViewSet
from foundation.kernel.errors import InternalError, MethodNotAllowed, PolicySignerUnavailable, RateLimited


@dataclass(frozen=True, slots=True)
class Operation:
    """What the document says of an operation.

    `answers`: what it answers, by status. `causes`: for what it refuses, beside the causes that all views share.
    """

    id: str
    summary: str
    description: str
    answers: Mapping[int, OpenApiResponse]
    causes: Sequence[Exception] = ()
    parameters: Sequence[Any] = ()
    request: Any = empty


def describe(view: type[ApiViewSet], tag: str, **operations: Callable[[], Operation]) -> None:
    """Describe a view by its actions, so that it is free of that. What is said is made once the document is."""

    class Documentation(OpenApiViewExtension):  # type: ignore[no-untyped-call]
        target_class = view

        def view_replacement(self) -> type[APIView]:
            described = {action: _decorator(view, action, tag, make()) for action, make in operations.items()}
            documented: type[APIView] = type(view.__name__, (view,), {})
            return extend_schema_view(**described)(documented)


def refine(serializer: type[BaseSerializer], **properties: Json) -> None:
    """Add to the properties of a serializer what its fields do not say, such as patterns."""

    class Refinement(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
        target_class = serializer

        def map_serializer(self, auto_schema: Any, direction: Any) -> Json:
            schema = super().map_serializer(auto_schema, direction)
            for name, more in properties.items():
                schema["properties"][name].update(more)
            return schema


def describe_field(field: type[Field], schema: Json) -> None:
    """Describe a field of our own wherever a serializer has it."""

    class Described(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
        target_class = field

        def map_serializer_field(self, auto_schema: Any, direction: Any) -> Json:
            return {**schema}


_SAID = f"Above {MAX_PAGE_SIZE}, {MAX_PAGE_SIZE} are listed."
describe_field(PageSizeField, {"type": "integer", "minimum": 1, "default": DEFAULT_PAGE_SIZE, "description": _SAID})


def example(name: str, value: object, summary: str = "") -> OpenApiExample:
    """Show an example."""
    return OpenApiExample(name, value, summary=summary)


def answer(serializer: type[BaseSerializer], said: str, *examples: OpenApiExample) -> OpenApiResponse:
    """Describe an answer by its serializer."""
    return OpenApiResponse(serializer, said, [*examples])


def page_answer(serializer: type[BaseSerializer], shown: Json) -> Mapping[int, OpenApiResponse]:
    """Describe the answer of a list. The view lists, but what it answers is one object."""
    extend_schema_serializer(many=False)(serializer)
    said = "A page; `nextCursor`, unless it is null, leads to the one after it."
    return {200: answer(serializer, said, example("Page", shown, "The last page"))}


def idempotency_key(said: str, shown: str) -> OpenApiParameter:
    """Describe the header that names a payment."""
    return OpenApiParameter(
        "Idempotency-Key", IDEMPOTENCY_KEY, "header", required=True, description=said, examples=[example("Key", shown)]
    )


def response_headers(*names: str, on: Sequence[int]) -> list[OpenApiParameter]:
    """Describe headers of the responses with these statuses."""
    return [
        OpenApiParameter(
            name, RESPONSE_HEADERS[name][1], "header", description=RESPONSE_HEADERS[name][0], response=list(on)
        )
        for name in names
    ]


def _decorator(view: type[ApiViewSet], action: str, tag: str, operation: Operation) -> Callable[[Any], Any]:
    method = "POST" if action == "create" else "GET"
    refused = _refusals(view(), method, [*operation.causes, query_refusal(operation.parameters)])
    ignored = () if view.body_form is None else ("Ignored-Members",)
    answers = {**operation.answers, **refused}
    headers = [*_refusal_headers(refused), *response_headers(*ignored, on=_with_body(answers))]
    return extend_schema(
        operation_id=operation.id,
        summary=operation.summary,
        description=operation.description,
        tags=[tag],
        parameters=[*operation.parameters, *headers],
        responses=answers,
        request=operation.request,
    )


def _with_body(statuses: Iterable[int]) -> list[int]:
    """Choose the statuses of answers to a body that was read."""
    return sorted(set(statuses) - {401, 405, 413, 415, 500})


def _refusals(view: ApiViewSet, method: str, causes: Sequence[Exception]) -> dict[int, OpenApiResponse]:
    nobody: Any = SimpleNamespace(method=method, META={}, user=SimpleNamespace(scopes=frozenset()))
    keys = [raised_by(partial(step.authenticate, nobody)) for step in view.get_authenticators()]
    needs_scope = method != "GET" or view.scopes_to_read != ()
    permissions = view.get_permissions() if needs_scope else []
    scopes = [raised_by(partial(step.has_permission, nobody, view)) for step in permissions]
    others = [RateLimited(retry_after_s=42), MethodNotAllowed(), InternalError(), PolicySignerUnavailable()]
    context = {"view": SimpleNamespace(allowed_methods=[method])}
    found: dict[int, list[Json]] = {}
    for cause in (*causes, *keys, *scopes, *others):
        answer = exception_handler(cause, context)
        if answer is None:
            raise cause
        found.setdefault(answer.status_code, []).append(answer.data)
    return {status: _refusal(bodies) for status, bodies in sorted(found.items())}


def _refusal(bodies: Sequence[Json]) -> OpenApiResponse:
    codes = list(dict.fromkeys(body["error"]["code"] for body in bodies))
    shapes = sorted({"PolicyRefusal" if "rule" in body["error"] else "ErrorResponse" for body in bodies}, reverse=True)
    refs = [refer(shape) for shape in shapes]
    return OpenApiResponse(
        # Nothing beside the reference: generators of clients would drop the model.
        response=refs[0] if len(refs) == 1 else {"anyOf": refs},
        description=", ".join(f"`{code}`" for code in codes),
        examples=[_example(body["error"], number) for number, body in enumerate(bodies, 1)],
    )


def _example(error: Json, number: int) -> OpenApiExample:
    first = error["fields"][0] if error.get("fields") else error
    rule = f" ({error['rule']})" if "rule" in error else ""
    return OpenApiExample(
        f"{error['code']}_{number}", {"error": error}, summary=f"{error['code']}{rule}: {first['message']}"
    )


def _refusal_headers(responses: Iterable[int]) -> list[OpenApiParameter]:
    """Document the headers that come with these statuses. See `foundation.api.errors.headers`."""
    found = {
        401: ("WWW-Authenticate",),
        405: ("Allow",),
        422: ("Retry-After",),
        429: ("Retry-After", "RateLimit", "RateLimit-Policy"),
        503: ("Retry-After",),
    }
    return [header for status in responses for header in response_headers(*found.get(status, ()), on=[status])]

"""The base of every `/v1` view: it fixes the order of checks, so that each refusal has one cause.

404/405 of the route, 204 of OPTIONS → 401 → 429 → 413/415/400 of the body's syntax → 400 of the query's names → 403
scope → the view's own checks.
Source: docs/contract.md, "Order of checks".
"""

from collections.abc import Callable, Mapping
from functools import wraps
from http import HTTPStatus
from typing import Any, ClassVar, Concatenate, ParamSpec

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from foundation.api.bodies import read_object
from foundation.api.environ import forget_caller, recognise
from foundation.api.errors import error_response
from foundation.api.names import check_query, name_ignored
from foundation.api.throttles import limit_rate
from foundation.kernel.errors import InvalidApiKey, MethodNotAllowed
from foundation.telemetry.context import note

_P = ParamSpec("_P")


class JsonOnly(BaseContentNegotiation):
    """Answer JSON whatever `Accept` says: an agent that sends `*/*;q=0` still needs to read its refusal."""

    def select_renderer(
        self, _request: Request, renderers: Any, _format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], renderers[0].media_type


class AnswersOptions(APIView):
    """A view that answers OPTIONS with 204: DRF writes the methods into `Allow`, as with every answer."""

    def options(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return Response(status=HTTPStatus.NO_CONTENT)


class ApiViewSet(AnswersOptions, ViewSet):
    """A viewset of `/v1`. `required_scope` names what the key must permit; `body` holds a POST's JSON object.

    `queries`: the form of each action's query; one that is not there takes no parameters. `body_form`: that of a body.
    `scopes_to_read`: one of these will do to read; an empty tuple: every key will do; None: the required one.
    One that `verifies_callers` may get a caller who is only remembered for a POST, and looks up their key itself.
    """

    http_method_names = ["get", "head", "post", "options"]
    content_negotiation_class = JsonOnly
    required_scope: ClassVar[str]
    scopes_to_read: ClassVar[tuple[str, ...] | None] = None
    verifies_callers: ClassVar[bool] = False
    queries: ClassVar[Mapping[str, Serializer]] = {}
    body_form: ClassVar[Serializer | None] = None
    is_authenticated = False
    body: dict[str, Any]

    def initial(self, request: Request, *_args: Any, **_kwargs: Any) -> None:
        self.format_kwarg = None
        request.accepted_renderer, request.accepted_media_type = self.perform_content_negotiation(request)
        if request.method not in self.allowed_methods:
            raise MethodNotAllowed
        if request.method == "OPTIONS":
            return
        try:
            self.perform_authentication(request)
        except InvalidApiKey:
            forget_caller(request.META)
            raise
        self.is_authenticated = True
        recognise(request.META, str(request.user))
        key_id = request.user.key_id  # type: ignore[union-attr]  # the caller, not one of Django's users
        note(keyId=key_id, agentId=request.user.agent_id)  # type: ignore[union-attr]  # as above
        limit_rate(key_id)
        if request.method == "POST":
            self.body = read_object(request._request)  # noqa: SLF001 - DRF offers no public way to the stream
        if request.META.get("QUERY_STRING"):
            form = self.queries.get(str(self.action))
            check_query(request.query_params, form.fields if form else ())
        self.check_permissions(request)

    def read_query(self, request: Request) -> dict[str, Any]:
        """Read the values of the query. Raises `ValidationError`."""
        values: dict[str, Any] = self.queries[str(self.action)].run_validation(request.query_params.dict())
        return values

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Name the members of the body that were ignored, whatever is answered, unless it is that nobody is known."""
        answer = super().finalize_response(request, response, *args, **kwargs)
        if self.body_form is None or answer.status_code == HTTPStatus.UNAUTHORIZED or not hasattr(self, "body"):
            return answer
        if ignored := name_ignored(self.body, self.body_form.fields):
            answer["Ignored-Members"] = ignored
        return answer


def read_only(
    view: Callable[Concatenate[HttpRequest, _P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, _P], HttpResponse]:
    """Let a plain view answer to GET, HEAD and OPTIONS alone; every other method is refused in the envelope."""

    @csrf_exempt  # it changes nothing: there is nothing to forge
    @wraps(view)
    def answer(request: HttpRequest, /, *args: _P.args, **named: _P.kwargs) -> HttpResponse:
        if request.method in ("GET", "HEAD"):
            return view(request, *args, **named)
        if request.method == "OPTIONS":
            response = HttpResponse(status=HTTPStatus.NO_CONTENT)
            del response["Content-Type"]
        else:
            response = error_response(MethodNotAllowed())
        response["Allow"] = "GET, HEAD, OPTIONS"
        return response

    return answer

"""The two addresses that show the OpenAPI document: `GET /v1/openapi.json` and `GET /v1/docs`. No key is needed."""

from functools import cache
from threading import Lock
from typing import Any

from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.views import SpectacularSwaggerView
from rest_framework.renderers import BaseRenderer, JSONRenderer, TemplateHTMLRenderer
from rest_framework.request import Request

from allowance.api.views import AnswersOptions, JsonOnly


class _FirstRenderer(JsonOnly):
    """A page for GET and HEAD, an envelope for every other method."""

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        chosen = renderers[0] if request.method in ("GET", "HEAD") else JSONRenderer()
        return chosen, chosen.media_type


class DocumentView(AnswersOptions):
    """`GET /v1/openapi.json`: the document."""

    schema = None
    http_method_names = ["get", "head", "options"]
    authentication_classes = ()
    permission_classes = ()
    content_negotiation_class = JsonOnly

    def get(self, _request: Request) -> HttpResponse:
        return HttpResponse(
            document(), content_type="application/json", headers={"Cache-Control": "public, max-age=300"}
        )


class PageView(AnswersOptions, SpectacularSwaggerView):
    """`GET /v1/docs`: the document as a page, all of it served from here."""

    schema = None
    http_method_names = ["get", "head", "options"]
    renderer_classes = [TemplateHTMLRenderer]
    content_negotiation_class = _FirstRenderer
    url_name = "openapi"


_generating = Lock()  # drf-spectacular's generator is not meant for two threads


@cache
def document() -> bytes:
    """Generate the document, once per process: it is public and depends on nothing."""
    with _generating:
        schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
        return bytes(OpenApiJsonRenderer().render(schema))

"""The two addresses that show the OpenAPI document: `GET /v1/openapi.json` and `GET /v1/docs`. No key is needed."""

import json
from functools import cache
from threading import Lock
from typing import Any

from django.http import HttpRequest, HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.views import SpectacularSwaggerView
from rest_framework.renderers import TemplateHTMLRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.api.public_documents import PublicDocument, public_document
from foundation.api.views import JsonOnly


@public_document
def show_document(request: HttpRequest) -> HttpResponse:
    """Send the OpenAPI document."""
    return _document().answer(request)


class _Page(SpectacularSwaggerView):
    """The document as a page, all of it served from here."""

    schema = None
    renderer_classes = [TemplateHTMLRenderer]
    content_negotiation_class = JsonOnly
    url_name = "openapi"

    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Render the page. The API has no forms, so there is no token for them: the page is the same for all."""
        response: Response = super().get(request, *args, **kwargs)  # type: ignore[no-untyped-call]
        response.data["csrf_token"] = ""
        return response


show_swagger = public_document(_Page.as_view())


@cache
def _document() -> PublicDocument:
    return PublicDocument.of("application/json", document())


_generating = Lock()  # drf-spectacular's generator is not meant for two threads


@cache
def document() -> bytes:
    """Generate the document, once per process: it is public and depends on nothing."""
    with _generating:
        schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
        # The renderer knows the framework's own kinds of text; written anew, without the spaces for readers.
        readable = json.loads(OpenApiJsonRenderer().render(schema))
        return json.dumps(readable, separators=(",", ":"), ensure_ascii=False).encode()

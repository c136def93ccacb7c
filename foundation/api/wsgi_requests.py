"""The class of requests, which Django parses before any of our code runs."""

from typing import Any

from django.core.handlers.wsgi import WSGIRequest


class LenientRequest(WSGIRequest):
    """A request whose `Content-Type` may have any parameters: bodies and queries are UTF-8 here, whatever they say.

    Django would decode the query by the body's charset, and fail on some parameters before any handler can answer.
    """

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        self.content_type = meta.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        self.content_params = {}

"""The way of `/v1`: past the console's middleware, with the same answers."""

import json
import re

import pytest
from django.conf import settings as django_settings
from django.test import Client

from foundation.api.bypass import bypass_console
from tests.support.factories import make_api_key

BYPASS = f"{bypass_console.__module__}.{bypass_console.__name__}"
# Method, path, and what is odd about the request.
ASKED = [
    ("GET", "/v1/logs", {}),
    ("GET", "/v1/logs/", {}),
    ("HEAD", "/v1/logs", {}),
    ("GET", "/v1/logs?limit=x", {}),
    ("GET", "/v1/logs", {"HTTP_HOST": "elsewhere.example"}),
    ("GET", "/v1/logs", {"HTTP_HOST": "a b"}),
    ("GET", "/v1/logs", {"HTTP_AUTHORIZATION": "Bearer nobody"}),
    ("GET", "/v1/logs", {"HTTP_COOKIE": "sessionid=x; csrftoken=y"}),
    ("GET", "/v1/logs", {"wsgi.url_scheme": "https"}),
    ("GET", "/v1/logs", {"HTTP_X_FORWARDED_PROTO": "https"}),
    ("POST", "/v1/logs", {}),
    ("DELETE", "/v1/services", {}),
    ("OPTIONS", "/v1/services", {}),
    ("POST", "/v1/services", {}),
    ("POST", "/v1/payments/request", {}),
    ("GET", "/v1/agents/nobody/budget", {}),
    ("GET", "/v1/agents/a\n/budget", {}),
    ("GET", "/v1/", {}),
    ("GET", "/v1/nothing", {}),
    ("GET", "/v1/openapi.json", {}),
    ("GET", "/v1/docs", {}),
    ("GET", "/v1/docs/errors", {}),
    ("GET", "/v1/docs/errors/", {"HTTP_ACCEPT": "text/html"}),
    ("HEAD", "/v1/docs/errors", {"HTTP_ACCEPT_ENCODING": "gzip"}),
    ("GET", "/v1/docs/nothing", {}),
    ("GET", "/llms.txt", {}),
    ("GET", "/llms.txt/", {"HTTP_HOST": "elsewhere.example"}),
    ("OPTIONS", "/llms.txt", {}),
    ("POST", "/llms.txt", {}),
    ("GET", "/llms.txt/x", {}),
    ("GET", "/v1", {}),
    ("GET", "/v1x", {}),
]


@pytest.mark.parametrize("is_https", [False, True], ids=["http", "https only"])
@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_the_short_way_answers_as_the_long_one_does(db, settings, asked, is_https):
    settings.SECURE_SSL_REDIRECT = is_https
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if is_https else None
    settings.SECURE_HSTS_SECONDS = 3600 if is_https else 0
    settings.SECURE_HSTS_INCLUDE_SUBDOMAINS = is_https
    key = make_api_key()

    short = ask(key, *asked)
    settings.MIDDLEWARE = [name for name in django_settings.MIDDLEWARE if name != BYPASS]

    assert short == ask(key, *asked)


def test_it_passes_none_of_the_consoles_middleware(db, settings):
    assert BYPASS in django_settings.MIDDLEWARE
    before = django_settings.MIDDLEWARE[: django_settings.MIDDLEWARE.index(BYPASS) + 1]
    settings.MIDDLEWARE = [*before, f"{__name__}.refuse_everything"]

    assert ask(make_api_key(), "GET", "/v1/logs", {})[0] == 200
    assert ask(make_api_key(), "GET", "/console/", {})[0] == 500


def test_a_view_that_fails_is_500_in_the_envelope(db, settings, monkeypatch):
    monkeypatch.setattr("ledger.views.read_log_page", refuse_everything)

    status, _, body = ask(make_api_key(), "GET", "/v1/logs", {})

    assert (status, json.loads(body)["error"]["code"]) == (500, "internal_error")


def refuse_everything(*_args, **_named):
    def middleware(request):
        raise RuntimeError(request.path)

    if _named:
        raise RuntimeError
    return middleware


def ask(key, method, path, environ):
    """Return status, headers and body of an answer that was asked for under a request id of its own."""
    client = Client(SERVER_NAME="localhost", raise_request_exception=False)
    named = {"HTTP_AUTHORIZATION": f"Bearer {key}", "HTTP_X_REQUEST_ID": "req_mine", **environ}
    body = b"{}" if method == "POST" else b""
    response = client.generic(method, path, body, content_type="application/json", **named)
    # `Vary: Cookie` says that a cookie was looked at, which the short way never does.
    headers = {name: value for name, value in response.items() if name != "Vary"}
    # A token for forms, which the page for people would send along; the API has none, and looks at none.
    body_without_token = re.sub(rb'"[0-9A-Za-z]{64}"', b"", response.content)
    return response.status_code, headers, body_without_token

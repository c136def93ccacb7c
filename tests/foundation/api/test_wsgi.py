"""The web process itself: what comes before the first view, asked as the server asks it."""

import io
import json
from typing import Any

import pytest

from allowance import wsgi
from tests.support.factories import make_api_key

# A request of its own connection: nothing is rolled back, and nothing is left but API keys.
pytestmark = pytest.mark.usefixtures("committed")
application: Any = wsgi.application


def ask(method, path, query="", content_type="", body=b""):
    """Call the application as a WSGI server does; return the status and what the body says."""
    started = []
    environ = {
        "REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query, "CONTENT_TYPE": content_type,
        "CONTENT_LENGTH": str(len(body)), "HTTP_X_API_KEY": make_api_key(), "HTTP_HOST": "localhost",
        "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body), "wsgi.errors": io.StringIO(),
    }  # fmt: skip
    answer = b"".join(application(environ, lambda status, _headers: started.append(status)))
    return int(started[0].split()[0]), json.loads(answer)


@pytest.mark.parametrize(
    "parameter",
    [
        "charset=utf-8", "charset=hex", "charset=base64", "charset=idna", "charset=utf-16", "charset=utf-7",
        "charset=nonsense", "charset=", "x*=nonsense'en'zz", "x*=utf-8'en'%ff", "x*=", "=", ";;;", "x=" + "y" * 20_000,
        'x="', "\u00e9=\u00fc",
    ],
)  # fmt: skip
def test_the_parameters_of_a_content_type_change_nothing(parameter):
    content_type = f"application/json; {parameter}"

    status, answer = ask("GET", "/v1/logs", "limit=00", content_type)
    assert (status, answer["error"]["fields"][0]["param"]) == (400, "limit")
    status, answer = ask("GET", "/v1/logs", "caf%C3%A9=1&limit=50", content_type)
    assert (status, answer["error"]["fields"][0]["param"]) == (400, "caf\u00e9")
    status, answer = ask("POST", "/v1/services", "", content_type, '{"caf\u00e9": 1}'.encode())
    assert (status, answer["error"]["code"]) == (400, "invalid_request")
    assert {field["param"] for field in answer["error"]["fields"]} == {"id", "name", "recipient", "asset"}


@pytest.mark.parametrize("content_type", [" application/json", "Application/JSON ", "application/json;", ""])
def test_a_content_type_is_read_in_any_case(content_type):
    status, answer = ask("POST", "/v1/services", "", content_type, b"[]")

    assert (status, answer["error"]["fields"][0]["message"]) == (400, "The body must be a JSON object.")


@pytest.mark.parametrize("content_type", ["text/plain; charset=hex", "x", ";", "\u00e9", "multipart/form-data"])
def test_another_type_is_415_whatever_its_parameters(content_type):
    status, answer = ask("POST", "/v1/services", "a=1", content_type, b"{}")

    if content_type == ";":  # names no type at all
        assert (status, answer["error"]["code"]) == (400, "invalid_request")
    else:
        assert (status, answer["error"]["code"]) == (415, "unsupported_media_type")

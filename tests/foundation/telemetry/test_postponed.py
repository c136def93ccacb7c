"""What the front asks twice is no error that anybody is told of."""

import os
import subprocess
import sys

import pytest

from tests.test_project import ROOT

TOKEN = "a-token-of-the-monitor"
ASK = """
import io
from allowance.wsgi import application
import sentry_sdk
from allowance.front.outgoing import answer_to
from foundation.api.environ import IS_UNKNOWN_CALLER
from foundation.telemetry.errors import report_errors

told = []
report_errors("https://key@localhost/1", "web")
sentry_sdk.get_client().transport.capture_envelope = told.append
asked = {
    "REQUEST_METHOD": "GET", "PATH_INFO": "/metrics", "QUERY_STRING": "", "SERVER_NAME": "localhost",
    "SERVER_PORT": "80", "wsgi.input": io.BytesIO(), "wsgi.url_scheme": "http", "wsgi.errors": None,
    "HTTP_X_REQUEST_ID": "req_1", "HTTP_AUTHORIZATION": "Bearer TOKEN", IS_UNKNOWN_CALLER: "",
}
print(answer_to(application, asked).is_postponed, len(told))
try:
    raise RuntimeError("An error that people are told of.")
except RuntimeError as error:
    sentry_sdk.capture_exception(error)
print(len(told))
"""


@pytest.mark.usefixtures("committed")
def test_a_request_that_the_front_asks_again_is_not_reported_as_an_error():
    asked = subprocess.run(
        [sys.executable, "-c", ASK.replace("TOKEN", TOKEN)],
        cwd=ROOT, env={**os.environ, "METRICS_TOKEN": TOKEN}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert asked.stdout.splitlines() == ["True 0", "1"], asked.stderr

"""The line of a request, whoever answers it. With an application that answers as it is told."""

import asyncio
import json
import logging

import pytest

from allowance.front.outgoing import Answer
from allowance.front.request_lines import RequestLines
from allowance.front.serving import Front
from foundation.api.environ import WORKED_ON
from foundation.telemetry.log_lines import JsonLine, PlainLine


@pytest.fixture
def lines(caplog, settings):
    """Ask the front something; gives the lines that were written, as records."""
    settings.TRUSTED_PROXIES = 1

    def ask(path=b"/v1/logs", *, answer=None, breaks=False, **of_scope):
        def application(environ, start_response):
            environ[WORKED_ON] = {"requestId": "req_1", "keyId": "key", "agentId": "agent"}
            start_response(answer or "200 OK", [("X-Request-Id", "req_1")])
            return [b"twelve bytes"]

        async def send(_message):
            if breaks:
                raise ConnectionError

        async def receive():
            raise AssertionError

        scope = {
            "type": "http", "method": "GET", "raw_path": path, "query_string": b"cursor=secret", "http_version": "1.1",
            "scheme": "http", "server": ("127.0.0.1", "1"), "client": ("127.0.0.1", "2"),
            "headers": [(b"x-forwarded-for", b"203.0.113.7")], **of_scope,
        }  # fmt: skip
        front = RequestLines(Front(application, lambda _environ: None, lambda _environ: Answer(429)))
        with caplog.at_level(logging.INFO, "allowance.requests"):
            try:
                asyncio.run(front(scope, receive, send))
            except ConnectionError:
                assert breaks
        return caplog.records

    return ask


def test_a_request_has_one_line(lines):
    (record,) = lines()
    line = json.loads(JsonLine("web").format(record))
    told = {
        name: line[name] for name in ("method", "path", "status", "bytes", "client", "requestId", "keyId", "agentId")
    }
    assert told == {
        "method": "GET", "path": "/v1/logs", "status": 200, "bytes": 12, "client": "203.0.113.7",
        "requestId": "req_1", "keyId": "key", "agentId": "agent",
    }  # fmt: skip
    assert line["ms"] >= 0
    assert "secret" not in PlainLine().format(record)


@pytest.mark.parametrize("path", [b"/healthz", b"/readyz/", b"/metrics"])
def test_probes_have_a_line_only_when_they_are_refused(lines, path):
    assert lines(path) == []
    (record,) = lines(path, answer="503 Service Unavailable")
    assert record.status == 503


def test_nobody_writes_lines_of_their_own(lines):
    (record,) = lines(b'/v1/a\r\n2026 ERROR forged\x1b[2J"\xff', method="GET\n")
    line = PlainLine().format(record)
    assert len(line.splitlines()) == 1
    assert line.isascii()
    assert line.isprintable()


def test_a_long_address_is_cut(lines):
    (record,) = lines(b"/" + b"x" * 30_000)
    assert len(record.path) == 512


def test_a_request_whose_client_has_gone_has_a_line(lines):
    (record,) = lines(breaks=True)
    assert record.path == "/v1/logs"

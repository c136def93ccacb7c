"""What the server and the front make of requests that no client library sends. Over real sockets."""

import json
from typing import Any

import pytest

from tests.support.factories import make_api_key, new_name
from tests.support.wire import Raw, ask, connect, read_answer

CHUNKED = "Transfer-Encoding: chunked"
pytestmark = pytest.mark.usefixtures("committed")


def assert_refused(answer: Raw, status: int, code: str) -> dict[str, Any]:
    assert (answer.status, answer.error["code"]) == (status, code)
    assert answer.headers["cache-control"] == "no-store"
    assert "x-request-id" in answer.headers
    return answer.error


# --- A header twice
def test_two_different_idempotency_keys_are_refused(desk):
    error = assert_refused(
        ask(desk.url, desk.head(desk.length, idempotency=("a", "b")) + desk.body), 400, "invalid_request"
    )

    assert [field["param"] for field in error["fields"]] == ["Idempotency-Key"]
    assert desk.paid == 0


def test_the_same_idempotency_key_twice_is_one(desk):
    name = new_name("key")
    first = ask(desk.url, desk.head(desk.length, idempotency=(name, name)) + desk.body)
    again = ask(desk.url, desk.head(desk.length, idempotency=(name,)) + desk.body)

    assert (first.status, again.status, again.headers["idempotent-replayed"]) == (201, 201, "true")
    assert first.body == again.body


def test_two_idempotency_keys_are_told_after_the_key_and_the_body(desk):
    two = ("a", "b")

    assert_refused(
        ask(desk.url, desk.head(desk.length, key="nobody", idempotency=two) + desk.body), 401, "invalid_api_key"
    )
    assert_refused(ask(desk.url, desk.head("Content-Length: 1", idempotency=two) + b"{"), 400, "invalid_request")


@pytest.mark.parametrize("header", ["Authorization: Bearer {0}", "X-API-Key: {0}"])
def test_two_different_keys_in_headers_of_one_name_are_refused(desk, header):
    head = desk.head(desk.length, header.format(make_api_key()), header.format(make_api_key()))

    assert_refused(ask(desk.url, head + desk.body), 401, "invalid_api_key")
    assert desk.paid == 0


def test_the_same_key_twice_is_one(desk):
    assert ask(desk.url, desk.head(desk.length, f"X-API-Key: {desk.key}") + desk.body).status == 201


def test_two_different_content_types_are_no_json(desk):
    head = desk.head(desk.length, "Content-Type: application/json", "Content-Type: text/plain")

    assert_refused(ask(desk.url, head + desk.body), 415, "unsupported_media_type")


def test_a_header_with_an_underscore_does_not_pass_for_another(desk):
    head = desk.head(desk.length, f"Idempotency_Key: {new_name('key')}", idempotency=())

    assert_refused(ask(desk.url, head + desk.body), 400, "idempotency_key_required")


# --- Names of members
def test_the_names_of_ignored_members_make_one_header_whatever_they_hold(desk):
    desk.body = json.dumps({**json.loads(desk.body), "a\r\nX-Evil: 1": 1, "\u00fc": 2}).encode()
    answer = ask(desk.url, desk.head(desk.length) + desk.body)

    assert (answer.status, answer.headers["ignored-members"]) == (201, "a??X-Evil??1, ?")
    assert "x-evil" not in answer.headers


# --- A body that is not all there
@pytest.mark.parametrize("key", [None, "nobody"])
@pytest.mark.parametrize("headers", [[], [CHUNKED]])
def test_a_body_that_is_cut_off_pays_nothing(desk, key, headers):
    body = desk.chunks() if headers else desk.body
    head = desk.head(*(headers or [f"Content-Length: {len(desk.body) + 1}"]), key=key)
    answer = ask(desk.url, head + body, ends=True)

    if key:
        assert_refused(answer, 401, "invalid_api_key")
    else:
        error = assert_refused(answer, 400, "invalid_request")
        assert error["fields"] == [{"param": "", "message": "The body ended before it was complete."}]
    assert desk.paid == 0


def test_a_body_that_breaks_the_rules_of_chunks_pays_nothing(desk):
    for broken in (b"zz\r\n", b"-1\r\n", b"5\r\nabcdefgh\r\n0\r\n\r\n"):
        answer = ask(desk.url, desk.head(CHUNKED) + desk.chunks() + broken, ends=True)
        assert_refused(answer, 400, "invalid_request")
    assert desk.paid == 0


def test_a_body_that_does_not_come_in_time_is_refused_and_its_connection_closed(desk):
    with connect(desk.url) as connection:
        connection.sendall(desk.head(f"Content-Length: {len(desk.body) + 1}") + desk.body)
        error = assert_refused(answer := read_answer(connection), 400, "invalid_request")
        assert answer.headers["connection"] == "close"
        assert connection.recv(1) == b""

    assert error["message"] == "The body was not complete 10 seconds after its headers."
    assert desk.paid == 0


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_body_in_chunks_is_read_like_any_other(desk, size):
    answer = ask(desk.url, desk.head(CHUNKED) + desk.chunks(size) + b"0\r\n\r\n")
    assert (answer.status, answer.headers.get("connection")) == (201, None)


@pytest.mark.parametrize(
    ("key", "status", "code"), [(None, 413, "payload_too_large"), ("nobody", 401, "invalid_api_key")]
)
def test_a_body_over_64_kib_is_413_however_it_comes(desk, key, status, code):
    for head, body in (
        (desk.head("Content-Length: 65537", key=key), b"x" * 65_537),
        (desk.head("Content-Length: 3000000", key=key), b"x" * 100_000),
        (desk.head("Content-Length: 3000000", "Expect: 100-continue", key=key), b""),
        (desk.head(CHUNKED, key=key), b"10001\r\n" + b"x" * 65_537 + b"\r\n0\r\n\r\n"),
        (desk.head(CHUNKED, key=key), b"100000\r\n" + b"x" * 65_540),
    ):
        answer = ask(desk.url, head + body)
        assert_refused(answer, status, code)
        assert answer.headers["connection"] == "close"


def test_who_asks_first_whether_to_send_the_body_is_told_to(desk):
    with connect(desk.url) as connection:
        connection.sendall(desk.head(desk.length, "Expect: 100-continue"))
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(desk.body)
        assert read_answer(connection).status == 201


# --- Two requests in one
@pytest.mark.parametrize(
    "headers",
    [["Content-Length: 3", "Content-Length: 5"], ["Content-Length: 3, 5"], ["Content-Length: -1"],
     ["Content-Length: 0x10"], ["Transfer-Encoding: gzip"], ["Transfer-Encoding: chunked, gzip"],
     ["Transfer-Encoding: xchunked"], ["Transfer-Encoding : chunked"]],
)  # fmt: skip
def test_a_length_that_could_be_read_in_two_ways_is_refused_and_the_connection_closed(desk, headers):
    with connect(desk.url) as connection:
        connection.sendall(desk.head(*headers) + desk.body)
        answer = read_answer(connection)
        assert (answer.status, answer.headers.get("connection")) == (400, "close")
        assert connection.recv(1) == b""
    assert desk.paid == 0


@pytest.mark.parametrize("headers", [("Content-Length: 5", CHUNKED), (CHUNKED, "Content-Length: 5")])
def test_of_a_length_and_chunks_the_chunks_count_and_nothing_behind_them_is_read(desk, headers):
    hidden = desk.head(desk.length) + desk.body
    with connect(desk.url) as connection:
        connection.sendall(desk.head(*headers) + desk.chunks() + b"0\r\n\r\n" + hidden)
        answer = read_answer(connection)
        assert (answer.status, answer.headers["connection"]) == (201, "close")
        assert connection.recv(1) == b""
    assert desk.paid == 1


@pytest.mark.parametrize("coding", ["chunked, chunked", "gzip, chunked"])
def test_a_body_in_another_coding_pays_nothing(desk, coding):
    answer = ask(desk.url, desk.head(f"Transfer-Encoding: {coding}") + desk.chunks() + b"0\r\n\r\n")

    assert_refused(answer, 400, "invalid_request")
    assert desk.paid == 0


# --- Below Django
@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param(b"nonsense\r\n\r\n", 400, id="no HTTP"),
        pytest.param(b"GET /healthz HTTP/9.9\r\n\r\n", 400, id="unknown version"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: a\r\nA B: c\r\n\r\n", 400, id="malformed header"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: a\r\nA: \0\r\n\r\n", 400, id="control character in a header"),
        pytest.param(b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 431, id="long address"),
        pytest.param(b"GET / HTTP/1.1\r\nA: " + b"a" * 70_000 + b"\r\n\r\n", 431, id="long header"),
    ],
)
def test_what_the_server_cannot_read_as_http_is_refused_without_a_body(desk, request_, status):
    answer = ask(desk.url, request_)

    assert (answer.status, answer.body, answer.headers["connection"]) == (status, b"", "close")


def test_the_host_in_an_address_counts_for_nothing(desk):
    answer = ask(
        desk.url, f"GET http://evil.example/v1/me HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {desk.key}\r\n\r\n".encode()
    )

    assert answer.status == 200
    assert_refused(ask(desk.url, b"GET http://evil.example/v1/me HTTP/1.1\r\n\r\n"), 400, "invalid_request")


@pytest.mark.parametrize(
    "request_", [b"GET /v1/logs HTTP/1.1\r\n\r\n", b"GET /v1/logs HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"]
)
def test_a_request_without_one_host_has_the_envelope(desk, request_):
    assert_refused(ask(desk.url, request_), 400, "invalid_request")


@pytest.mark.parametrize("name", ["%00", "%0a", "%0D%0A", "pay_%7f", "%1b%5b31m", "%ff", "%c3%28", "%E2%80%AE"])
def test_an_address_with_control_characters_is_asked_for_like_any_other(desk, name):
    def get(path: str, *headers: str) -> Raw:
        return ask(desk.url, ("\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers]) + "\r\n\r\n").encode())

    for path, code in (
        (f"/v1/payments/{name}", "payment_not_found"),
        (f"/v1/agents/{name}/budget", "agent_not_found"),
        (f"/{name}", "not_found"),
        (f"/v1/logs{name}", "not_found"),
        (f"/static/{name}", "not_found"),
    ):
        assert_refused(get(path, f"X-API-Key: {desk.key}"), 404, code)
    assert_refused(get(f"/v1/payments/{name}"), 401, "invalid_api_key")
    assert_refused(get(f"/v1/agents/{name}/budget"), 401, "invalid_api_key")


def test_an_answer_to_head_has_the_length_and_no_body(desk):
    with connect(desk.url) as connection:
        for _ in range(2):  # a body would be taken for the next answer
            connection.sendall(b"HEAD /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += connection.recv(1)
            assert head.startswith(b"HTTP/1.1 200 ")
        assert b"content-length: 0" not in head.lower()


def test_a_large_answer_comes_whole(desk):
    answer = ask(desk.url, b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert answer.status == 200
    assert json.loads(answer.body)["openapi"].startswith("3.1")


def test_a_file_comes_whole_also_to_who_asks_for_a_part(desk):
    path = "/static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js"
    whole = ask(desk.url, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    part = ask(desk.url, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nRange: bytes=10-19\r\n\r\n".encode())

    assert (whole.status, len(whole.body)) == (200, int(whole.headers["content-length"]))
    assert (part.status, part.body) == (200, whole.body)

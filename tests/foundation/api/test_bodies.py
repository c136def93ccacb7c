"""How a body is read: its size, its declared type, its syntax. Asked of service registration; all POSTs share it."""

import json

import pytest

from tests.support.answers import error_of, faulty_params
from tests.support.factories import new_address, new_name

LIMIT = 64 * 1024


@pytest.fixture
def registration(db):
    return {"id": new_name("shop"), "name": "A shop", "recipient": f"base:{new_address()}", "asset": "USDC"}


def padded(registration, size):
    body = json.dumps({**registration, "padding": ""}).encode()
    return body.replace(b'"padding": ""', b'"padding": "' + b"x" * (size - len(body)) + b'"')


@pytest.mark.parametrize("size", [LIMIT - 1, LIMIT])
def test_a_body_of_64_kib_is_read(api, registration, size):
    body = padded(registration, size)

    assert len(body) == size
    assert api.post("/v1/services", body).status_code == 201


@pytest.mark.parametrize("path", ["/v1/services", "/v1/payments/request"])
@pytest.mark.parametrize("size", [LIMIT + 1, LIMIT + 1000, 3_000_000])
def test_a_body_over_64_kib_is_413(api, registration, no_trace, path, size):
    error_of(api.post(path, padded(registration, size)), 413, "payload_too_large")


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/json;charset=UTF-8;x=y",
        "application/json ; charset=latin-1", "application/json;", "application/json; charset=nonsense",
        "application/json; charset=hex", "application/json; charset=utf-16",
        "application/vnd.api+json", "application/problem+json", "",
    ],
)  # fmt: skip
def test_a_body_is_read_as_utf8_json_whatever_parameters_its_type_has(api, registration, content_type):
    body = json.dumps({**registration, "name": "Caf\u00e9"}, ensure_ascii=False).encode()

    response = api.send("POST", "/v1/services", body, content_type)

    assert (response.status_code, response.json()["name"]) == (201, "Caf\u00e9")


@pytest.mark.parametrize("path", ["/v1/services", "/v1/payments/request"])
@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "text/html", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json",
     "application/xml", "application/octet-stream", "application/jsonx", "*/*", "application/json, text/plain"],
)  # fmt: skip
def test_another_type_is_415(api, registration, no_trace, path, content_type):
    body = json.dumps(registration).encode()

    error_of(api.post(path, body, content_type), 415, "unsupported_media_type")


@pytest.mark.parametrize("path", ["/v1/services", "/v1/payments/request"])
@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"{", b"}", b"{}{}", b"null", b"true", b"1", b'"x"', b"[]", b"[{}]", b"{'a': 1}", b'{"a": 1,}',
        b'{"a": NaN}', b'{"a": Infinity}', b'{"a": -Infinity}', b'{"a": 1e999}', b'{"a": 123456789012345678901}',
        b'{"a": ' + b"9" * 6000 + b"}", b'{"a": 1, "a": 1}', b'{"a": {"b": 1, "b": 2}}', b'{"a": "\\u0000"}',
        b'{"\\u0000": 1}', b'{"a": "\\ud800"}', b'{"a": "\x00"}', b'{"a": "\xff"}', b"\xff\xfe{}", b"\x1f\x8b\x08",
        b"[" * 60_000, b'{"a":' * 10_000 + b"1" + b"}" * 10_000, b'{"a":' + b"[" * 64 + b"]" * 64 + b"}",
        '{"a": 1}'.encode("utf-16"), '{"a": 1}'.encode("utf-32"), b"id=x&name=y", b"<x/>",
    ],
)  # fmt: skip
def test_a_body_that_is_not_one_json_object_is_400(api, no_trace, path, body):
    response = api.post(path, body, idempotency_key="k")

    assert faulty_params(response) == [""]


def test_a_fault_anywhere_in_a_body_is_a_fault_of_the_body(api, registration, no_trace):
    body = json.dumps(registration).encode()[:-1]

    for extra in (b', "x": {"y": [1, {"z": "\\u0000"}]}}', b', "x": "\\udfff"}', b', "x": 1e400}', b', "name": "z"}'):
        error_of(api.post("/v1/services", body + extra), 400, "invalid_request")


def test_a_byte_order_mark_is_tolerated(api, registration):
    assert api.post("/v1/services", b"\xef\xbb\xbf" + json.dumps(registration).encode()).status_code == 201


def test_unknown_members_are_ignored(api, registration):
    response = api.post("/v1/services", {**registration, "extra": {"deep": [None, 1.5, True]}, "": 0, "status": "x"})

    assert response.status_code == 201

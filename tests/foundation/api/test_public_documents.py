"""What anybody may read: from any origin, compressed, kept by caches. What depends on a key: none of that."""

import gzip
import json
from email.message import Message

import pytest
import requests

from foundation.api.public_documents import takes_gzip
from tests.support.answers import error_of
from tests.support.fake_chain import PATIENCE_S
from tests.support.wire import ask

OPEN = [
    "/v1/openapi.json", "/v1/docs", "/v1/docs/agents", "/v1/docs/errors", "/v1/docs/errors/budget_exceeded",
    "/v1/docs/errors/budget_exceeded" + ".md", "/llms.txt", "/.well-known/allowance-keys.json",
]  # fmt: skip
PREPARED = [path for path in OPEN if path not in ("/v1/docs", "/.well-known/allowance-keys.json")]


@pytest.mark.parametrize("path", [*OPEN, *(f"{path}/" for path in OPEN)])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_public_document_needs_no_key_and_may_be_read_from_any_origin_and_kept(anonymous, method, path):
    response = anonymous.send(method, path, origin="https://elsewhere.example")

    assert response.status_code == 200
    assert response["Access-Control-Allow-Origin"] == "*"
    assert response["Cache-Control"] == "public, max-age=300"
    assert not response.cookies
    assert "Cookie" not in response.get("Vary", "")
    assert bool(response.content) is (method == "GET")


@pytest.mark.parametrize("path", OPEN)
def test_a_browser_is_told_beforehand_that_it_may_read(anonymous, path):
    asked = {"origin": "https://elsewhere.example", "access_control_request_method": "GET"}

    response = anonymous.send("OPTIONS", path, **asked, access_control_request_headers="x-request-id")

    assert (response.status_code, response.content, response["Allow"]) == (204, b"", "GET, HEAD, OPTIONS")
    assert response["Access-Control-Allow-Origin"] == "*"
    assert response["Access-Control-Allow-Methods"] == "GET, HEAD, OPTIONS"
    assert response["Access-Control-Allow-Headers"] == "*"
    assert {"Content-Type", "Content-Length"}.isdisjoint(response.headers)


@pytest.mark.parametrize("path", OPEN)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PROPFIND"])
def test_a_public_document_answers_to_no_other_method(anonymous, method, path):
    response = anonymous.send(method, path)

    error_of(response, 405, "method_not_allowed")
    assert response["Allow"] == "GET, HEAD, OPTIONS"


PRIVATE = [
    ("GET", "/v1/logs"), ("GET", "/v1/payments/pay_x"), ("GET", "/v1/agents/a/budget"), ("POST", "/v1/services"),
    ("POST", "/v1/payments/request"), ("POST", "/v1/payments/evaluate"), ("GET", "/v1/nothing"), ("GET", "/healthz"),
    ("GET", "/console/login/"), ("GET", "/metrics"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), PRIVATE)
def test_nothing_else_may_be_read_from_another_origin(api, method, path):
    asked = {"origin": "https://elsewhere.example", "access_control_request_method": method}

    for response in (api.send(method, path, **asked), api.send("OPTIONS", path, **asked)):
        assert [name for name in response.headers if name.lower().startswith("access-control-")] == []
        assert "public" not in response["Cache-Control"]


def test_what_a_page_of_docs_is_not_is_not_kept_by_caches(anonymous):
    response = anonymous.get("/v1/docs/nothing")

    error_of(response, 404, "not_found")
    assert response["Access-Control-Allow-Origin"] == "*"


def test_the_document_has_no_spaces_for_readers(anonymous):
    content = anonymous.get("/v1/openapi.json").content

    assert content == json.dumps(json.loads(content), separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("path", PREPARED)
@pytest.mark.parametrize("accept", ["text/html", "*/*"])
def test_a_compressed_document_is_the_same_and_smaller(anonymous, path, accept):
    plain = anonymous.get(path, accept=accept)
    packed = anonymous.get(path, accept=accept, accept_encoding="br, gzip")

    assert "Content-Encoding" not in plain
    assert packed["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.content) == plain.content
    assert len(packed.content) < len(plain.content)
    assert packed["Content-Type"] == plain["Content-Type"]
    for response in (plain, packed):
        assert int(response["Content-Length"]) == len(response.content)
        assert "Accept-Encoding" in response["Vary"]
    assert plain["ETag"] != packed["ETag"]


@pytest.mark.parametrize(
    ("accepted", "is_taken"),
    [
        ("gzip", True), ("GZIP", True), ("br, gzip;q=0.1", True), ("gzip ; q=1", True), ("*", True), ("*;q=0.5", True),
        ("", False), ("identity", False), ("br", False), ("gzip;q=0", False), ("gzip;q=0.000", False),
        ("*, gzip;q=0", False), ("*;q=0", False), ("gzip;q=x", False), ("gzip;q=-1", False), ("gzip;q=nan", False),
        ("gzip;q=1.0.0", False), ("x-gzipped", False), (",;=,", False),
    ],
)  # fmt: skip
def test_gzip_is_sent_to_whom_takes_it(accepted, is_taken):
    assert takes_gzip(accepted) is is_taken


@pytest.mark.parametrize("path", PREPARED)
def test_who_has_a_document_already_gets_304_without_it(anonymous, path):
    first = anonymous.get(path, accept_encoding="gzip")

    for known in (first["ETag"], f"W/{first['ETag']}", f'"other", {first["ETag"]}', "*"):
        again = anonymous.get(path, accept_encoding="gzip", if_none_match=known)
        assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
        assert (again["Vary"], again["Cache-Control"]) == (first["Vary"], first["Cache-Control"])
        assert {"Content-Length", "Content-Type", "Content-Encoding"}.isdisjoint(again.headers)
    for unknown in ('"other"', "", "damaged", first["ETag"].replace('"', "")):
        assert anonymous.get(path, accept_encoding="gzip", if_none_match=unknown).status_code == 200
    assert anonymous.get(path, if_none_match=first["ETag"]).status_code == 200  # the other form


def test_the_document_is_compressed_once(anonymous, monkeypatch):
    first = anonymous.get("/v1/openapi.json", accept_encoding="gzip").content
    monkeypatch.setattr("foundation.api.public_documents.gzip", None)

    assert anonymous.get("/v1/openapi.json", accept_encoding="gzip").content == first


def test_over_a_real_server_the_document_comes_compressed_and_304_has_no_body(committed, servers):
    url = f"{servers.urls[0]}/v1/openapi.json"

    packed = requests.get(url, timeout=PATIENCE_S)
    again = requests.get(url, headers={"If-None-Match": packed.headers["ETag"]}, timeout=PATIENCE_S)
    head = requests.head(url, timeout=PATIENCE_S)

    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.json()["openapi"] == "3.1.0"
    assert (again.status_code, again.content) == (304, b"")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["Content-Length"] == packed.headers["Content-Length"]


def test_over_a_real_server_llms_txt_is_refused_for_another_host(committed, servers):
    answer = ask(servers.urls[0], b"GET /llms.txt HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")

    assert (answer.status, answer.error["code"]) == (400, "invalid_request")


def charset_of(response):
    message = Message()
    message["Content-Type"] = response["Content-Type"]
    return message.get_content_type(), message.get_content_charset()


def test_texts_say_that_they_are_utf_8(anonymous):
    assert charset_of(anonymous.get("/llms.txt")) == ("text/plain", "utf-8")
    assert charset_of(anonymous.get("/v1/docs/errors")) == ("text/markdown", "utf-8")
    assert charset_of(anonymous.get("/v1/docs/errors", accept="text/html")) == ("text/html", "utf-8")

"""The API key goes to one host, over TLS, and is not shown; no redirect is followed, no endless answer is read."""

import copy
import os
from itertools import repeat

import httpx
import pytest
from allowance_client import Allowance, errors
from allowance_client.bodies import LARGEST_ANSWER

from tests.clients.stage import BUDGET

KEY = "alw_secret"


def client_of(handler, **options):
    http = httpx.Client(transport=httpx.MockTransport(handler), follow_redirects=True, auth=("other", "user"))
    return Allowance("https://pay.example", KEY, "agent", http, patience_s=0, **options)


def raises(words):
    return pytest.raises(errors.NoAnswer, match=words)


@pytest.mark.parametrize(
    "url",
    [
        "http://pay.example", "http://192.0.2.1", "http://localhost.example", "http://127.0.0.1.example", "http://[::2]",
        "ftp://127.0.0.1", "https://", "pay.example", "https://user@pay.example", "https://user:word@pay.example",
        "https://pay.example?key=1", "https://pay.example#there", "",
    ],
)  # fmt: skip
def test_a_key_is_not_sent_to_such_an_address(url):
    with pytest.raises(ValueError, match=r"URL|http"):
        Allowance(url, KEY)


@pytest.mark.parametrize(
    "url", ["https://pay.example/below", "http://127.0.0.1:8000", "http://localhost", "http://[::1]:1"]
)
def test_these_addresses_are_taken(url):
    with Allowance(url, KEY) as allowance:
        assert url in repr(allowance)


def test_plain_http_to_another_machine_has_to_be_allowed():
    Allowance("http://web:8000", KEY, allow_http=True).close()


@pytest.mark.parametrize("key", ["", "a b", "a\nb", "ä", "a\r\nHost: elsewhere"])
def test_what_cannot_be_a_key_is_refused_without_being_shown(key):
    with pytest.raises(ValueError, match="API key") as raised:
        Allowance("https://pay.example", key)

    assert not key or key not in str(raised.value)


def test_a_redirect_is_not_followed_and_takes_the_key_nowhere():
    seen = []

    def redirect(request):
        seen.append(request)
        return httpx.Response(307, headers={"location": "https://elsewhere.example/"})

    with client_of(redirect) as allowance, pytest.raises(errors.UnexpectedAnswer, match="307"):
        allowance.budget()

    assert [request.url.host for request in seen] == ["pay.example"]
    assert [request.headers["authorization"] for request in seen] == [f"Bearer {KEY}"]


def test_a_proxy_of_the_environment_is_not_told_what_goes_over_plain_http(monkeypatch):
    monkeypatch.setitem(os.environ, "HTTP_PROXY", "http://192.0.2.1:3128")
    with Allowance("http://127.0.0.1:1", KEY, "agent", patience_s=0) as allowance, raises("ConnectError"):
        allowance.budget()


def test_an_endless_answer_is_not_read_to_its_end():
    read = []

    def endless():
        for piece in repeat(b" " * 1024 * 1024, 100):
            read.append(len(piece))
            yield piece

    with client_of(lambda _: httpx.Response(200, content=endless())) as allowance, raises("too large"):
        allowance.budget()

    assert LARGEST_ANSWER < sum(read) <= LARGEST_ANSWER + 2 * 1024 * 1024


def test_a_compressed_answer_is_not_unpacked():
    def compressed(request):
        assert request.headers["accept-encoding"] == "identity"
        return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(b"bomb"))

    with client_of(compressed) as allowance, raises("compressed"):
        allowance.budget()


def test_a_given_http_client_stays_open_and_an_own_one_does_not():
    given = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, json=BUDGET)))
    with Allowance("https://pay.example", KEY, "agent", given) as allowance:
        assert allowance.budget().agent_id == "agent"
    own = Allowance("https://pay.example", KEY, "agent")
    own.close()

    assert not given.is_closed
    assert own._http.is_closed
    given.close()


def test_a_client_is_neither_copied_nor_stored():
    with Allowance("https://pay.example", KEY) as allowance, pytest.raises(TypeError, match="API key"):
        copy.copy(allowance)

"""An attempt over real HTTP and HTTPS: what goes out, and what of an answer is kept."""

import asyncio
import gzip
import json

import pytest
from standardwebhooks import Webhook

from services.models import Outcome
from services.webhooks import posting
from services.webhooks.resolving import CheckedResolver
from tests.services.webhooks.attempts import attempt, attempts, delivery_to
from tests.services.webhooks.behaviours import answers, hangs, pours, resets, sends
from tests.services.webhooks.receivers import Receiver, at_loopback

OK = b"HTTP/1.1 200 OK\r\n"


# --- What goes out ----------------------------------------------------------------------------------------------------
def test_an_event_is_delivered_over_https_to_the_host_that_the_url_names(authority):
    with Receiver(tls=authority.server("shop.example")) as receiver:
        url = receiver.url("/hook?a=1&b=%2F%20", host="shop.example")
        result = attempt(url)

        (request,) = receiver.requests
        assert (result.outcome, result.status, result.detail) == (Outcome.DELIVERED, 200, "")
        assert request.line == "POST /hook?a=1&b=%2F%20 HTTP/1.1"
        assert request.server_name == "shop.example"
        assert request.header("host") == f"shop.example:{receiver.port}"
        assert request.peer == "127.0.0.1"


def test_a_name_that_ends_in_a_dot_is_certified_without_it(authority):
    with Receiver(tls=authority.server("shop.example")) as receiver:
        assert attempt(receiver.url(host="shop.example.")).outcome == Outcome.DELIVERED
        assert receiver.requests[0].server_name == "shop.example"


def test_a_url_without_a_path_asks_for_the_root():
    with Receiver() as receiver:
        attempt(receiver.url("", host="shop.example"))
        attempt(receiver.url("?a=%zz", host="shop.example"))

        assert [request.path for request in receiver.requests] == ["/", "/?a=%zz"]


def test_the_body_arrives_byte_for_byte_as_json():
    body = json.dumps({"metadata": {"Bestellung №": "Äpfel \u2028 🍎\u0000"}}, ensure_ascii=False).encode() + b" \r\n"
    with Receiver() as receiver:
        attempt(receiver.url(), body)

        (request,) = receiver.requests
        assert request.body == body
        assert request.header("content-type") == "application/json"
        assert request.header("content-length") == str(len(body))


def test_the_receiver_can_verify_what_it_got_and_it_is_as_old_as_the_attempt():
    body = json.dumps({"id": "evt_7", "data": "Øl"}, ensure_ascii=False).encode()
    with Receiver() as receiver:
        (result,) = attempts(delivery_to(receiver.url(), body, event_id="evt_7"))

        (request,) = receiver.requests
        headers = {name.lower(): value for name, value in request.headers}
        assert Webhook(b"s" * 32).verify(request.body.decode(), headers) == json.loads(body)
        assert headers["webhook-id"] == "evt_7"
        assert headers["webhook-timestamp"] == str(int(result.started_at.timestamp()))


def test_nothing_goes_out_that_was_not_asked_for():
    with Receiver() as receiver:
        attempt(receiver.url())

        names = {name.lower() for name, _ in receiver.requests[0].headers}
        assert names == {
            "host", "user-agent", "accept", "accept-encoding", "content-type", "content-length", "connection",
            "webhook-id", "webhook-timestamp", "webhook-signature",
        }  # fmt: skip
        assert receiver.requests[0].header("accept-encoding") == "identity"


def test_a_cookie_is_not_sent_back():
    cookie = ("Set-Cookie", "session=1; Path=/; Max-Age=99999")
    with Receiver(answers(200, b"", cookie)) as receiver:
        one = delivery_to(receiver.url())
        attempts(one, one, one)

        assert len(receiver.requests) == 3
        assert all(request.header("cookie") is None for request in receiver.requests)


@pytest.mark.parametrize("name", ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"])
def test_a_proxy_of_the_environment_is_not_used(name, authority, monkeypatch):
    with Receiver() as proxy, Receiver() as plain, Receiver(tls=authority.server("shop.example")) as secure:
        for spelling in (name, name.lower()):
            monkeypatch.setenv(spelling, proxy.url(""))
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        for receiver in (plain, secure):
            assert attempt(receiver.url(host="shop.example")).outcome == Outcome.DELIVERED
            assert len(receiver.requests) == 1
        assert proxy.requests == []


def test_passwords_of_netrc_are_not_sent(tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine shop.example login root password secret\ndefault login root password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with Receiver() as receiver:
        attempt(receiver.url(host="shop.example"))

        assert receiver.requests[0].header("authorization") is None


@pytest.mark.parametrize("behaviour", [answers(200), answers(503), sends(b""), resets, sends(OK)])
def test_an_attempt_is_one_request_whatever_comes_back(behaviour):
    with Receiver(behaviour) as receiver:
        attempt(receiver.url())

        assert len(receiver.requests) == 1


def test_every_attempt_has_a_connection_of_its_own():
    with Receiver(hangs(OK + b"Content-Length: 0\r\nConnection: keep-alive\r\n\r\n")) as receiver:
        one = delivery_to(receiver.url())
        # On the first connection nobody reads another request.
        results = attempts(one, one)

        assert [result.outcome for result in results] == [Outcome.DELIVERED, Outcome.DELIVERED]
        assert len(receiver.requests) == 2


# --- What is made of the answer ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_200_to_299_is_success(status):
    with Receiver(answers(status)) as receiver:
        result = attempt(receiver.url())

        assert (result.outcome, result.status) == (Outcome.DELIVERED, status)


@pytest.mark.parametrize("status", [400, 401, 404, 410, 429, 500, 503, 599, 999])
def test_another_status_is_none(status):
    with Receiver(answers(status, b"Sorry", ("Retry-After", "120"))) as receiver:
        result = attempt(receiver.url())

        assert (result.outcome, result.status) == (Outcome.STATUS, status)
        assert (result.answer, result.retry_after, result.detail) == ("Sorry", "120", "")


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 305, 307, 308])
def test_a_redirect_is_not_followed(status):
    with Receiver() as target, Receiver(answers(status, b"", ("Location", target.url()))) as receiver:
        result = attempt(receiver.url())

        assert (result.outcome, result.status) == (Outcome.STATUS, status)
        assert len(receiver.requests) == 1
        assert target.requests == []


@pytest.mark.parametrize(
    "header",
    ["Location: http://[::bad/", "Refresh: 0; url=http://127.0.0.1/", "Link: <http://127.0.0.1/>; rel=preload"],
)
def test_headers_that_lead_elsewhere_are_not_read(header):
    with Receiver(sends(f"HTTP/1.1 302 -\r\nContent-Length: 0\r\n{header}\r\n\r\n".encode())) as receiver:
        assert attempt(receiver.url()).outcome == Outcome.STATUS


def test_an_answer_without_an_end_is_read_for_64_kib_and_counts_as_delivered():
    with Receiver(pours(OK + b"\r\n", b"x" * 10_000)) as receiver:
        result = attempt(receiver.url())

        assert (result.outcome, result.status) == (Outcome.DELIVERED, 200)
        assert result.answer == "x" * 2048


@pytest.mark.parametrize("head", [b"", b"Transfer-Encoding: chunked\r\n", b"Content-Length: 9000000000\r\n"])
def test_no_more_than_64_kib_of_an_answer_is_held(head):
    async def post(url):
        answer = posting._Answer()
        posting._sockets.set([])
        async with posting.open_session(CheckedResolver(at_loopback, allow_loopback=True)) as session:
            await posting._post(session, url, delivery_to(url).body, {}, answer)
        return answer

    wave = b"2710\r\n" + b"x" * 10_000 + b"\r\n" if b"chunked" in head else b"x" * 10_000
    with Receiver(pours(OK + head + b"\r\n", wave)) as receiver:
        answer = asyncio.run(post(receiver.url()))

        assert (answer.is_success, len(answer.body)) == (True, 64 * 1024)


def test_a_bomb_is_not_unpacked():
    bomb = gzip.compress(b"\0" * 20_000_000)
    with Receiver(answers(200, bomb, ("Content-Encoding", "gzip"))) as receiver:
        result = attempt(receiver.url())

        assert result.outcome == Outcome.DELIVERED
        assert result.answer == bomb[:2048].decode(errors="replace").replace("\x00", "\ufffd")


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate, gzip", "nonsense"])
def test_an_encoding_that_is_not_what_it_says_is_of_no_interest(encoding):
    with Receiver(answers(200, b"plain", ("Content-Encoding", encoding))) as receiver:
        assert attempt(receiver.url()).answer == "plain"


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (b"a\x00b", "a\ufffdb"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"\xed\xa0\x80", "\ufffd" * 3),
        (b"x" * 2047 + "é".encode(), "x" * 2047 + "\ufffd"),
        ("é".encode() * 2000, "é" * 1024),
    ],
)
def test_an_answer_is_kept_as_text_that_can_be_stored(body, answer):
    with Receiver(answers(200, body, ("Content-Type", "text/plain; charset=utf-16"))) as receiver:
        result = attempt(receiver.url())

        assert result.answer == answer
        result.answer.encode()


def test_interim_answers_are_passed_over():
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n"
    with Receiver(sends(interim + b"HTTP/1.1 204 -\r\n\r\n")) as receiver:
        result = attempt(receiver.url())

        assert (result.outcome, result.status) == (Outcome.DELIVERED, 204)


def test_a_switch_of_protocols_is_none():
    with Receiver(hangs(b"HTTP/1.1 101 -\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")) as receiver:
        result = attempt(receiver.url())

        assert (result.outcome, result.status) == (Outcome.STATUS, 101)


def test_an_address_of_ipv6_is_told_as_well():
    try:
        receiver = Receiver(address="::1")
    except OSError:
        pytest.skip("This machine has no IPv6.")

    async def lookup(host, port):
        return ["::1"]

    with receiver:
        assert attempt(receiver.url(host="shop.example"), lookup=lookup).outcome == Outcome.DELIVERED

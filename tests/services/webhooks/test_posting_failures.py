"""Receivers that are broken or hostile: each failure has a name, none takes longer than an attempt may."""

import asyncio
import socket
import threading
from contextlib import ExitStack

import pytest

from services.models import Outcome
from services.webhooks.posting import open_session, send
from services.webhooks.resolving import CheckedResolver
from tests.services.webhooks.attempts import BRIEF_S, HASTY_S, attempt, attempts, delivery_to
from tests.services.webhooks.authorities import Authority
from tests.services.webhooks.behaviours import answers, drips, hangs, pours, resets, sends
from tests.services.webhooks.receivers import Receiver, at_loopback, refused_port, silent_port

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


# --- TLS --------------------------------------------------------------------------------------------------------------
def test_a_certificate_of_another_name_is_refused_before_anything_is_told(authority):
    with Receiver(tls=authority.server("other.example")) as receiver:
        result = attempt(receiver.url(host="shop.example"))

        assert (result.outcome, result.status) == (Outcome.TLS, None)
        assert "not valid for 'shop.example'" in result.detail
        assert receiver.requests == []


def test_an_expired_certificate_is_refused(authority):
    with Receiver(tls=authority.server("shop.example", is_expired=True)) as receiver:
        result = attempt(receiver.url(host="shop.example"))

        assert result.outcome == Outcome.TLS
        assert "expired" in result.detail
        assert receiver.requests == []


def test_a_certificate_of_an_unknown_authority_is_refused(authority):
    with Receiver(tls=Authority().server("shop.example")) as receiver:
        assert attempt(receiver.url(host="shop.example")).outcome == Outcome.TLS
        assert receiver.requests == []


def test_without_an_authority_of_its_own_an_attempt_trusts_only_what_everybody_does(one_authority, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with Receiver(tls=one_authority.server("shop.example")) as receiver:
        assert attempt(receiver.url(host="shop.example")).outcome == Outcome.TLS
        assert receiver.requests == []


def test_a_receiver_of_http_behind_an_https_url_is_a_failure_of_tls(authority):
    with Receiver() as listening:
        # What it reads of TLS has no end of headers: it is the test's end that closes it.
        result = attempt(f"https://shop.example:{listening.port}/", timeout_s=HASTY_S)

        assert result.outcome in {Outcome.TLS, Outcome.TIMEOUT}
        assert listening.requests == []


def test_tls_that_does_not_begin_is_a_timeout(authority):
    with silent_port() as port:
        assert attempt(f"https://shop.example:{port}/", timeout_s=HASTY_S).outcome == Outcome.TIMEOUT


def test_a_receiver_that_drips_over_tls_is_a_timeout(authority):
    with Receiver(drips(OK, b"X: y\r\n"), tls=authority.server("shop.example")) as receiver:
        assert attempt(receiver.url(host="shop.example"), timeout_s=HASTY_S).outcome == Outcome.TIMEOUT


# --- Connection -------------------------------------------------------------------------------------------------------
def test_a_refused_connection():
    with refused_port() as port:
        result = attempt(f"http://shop.example:{port}/")

        assert (result.outcome, result.status) == (Outcome.CONNECTION, None)
        assert "Connect call failed" in result.detail


BROKEN = {
    "reset": resets,
    "closed without a word": sends(b""),
    "closed in the headers": sends(OK + b"Content-Le"),
    "not http": sends(b"\x00\xff\x00\r\n\r\n"),
    "ssh": sends(b"SSH-2.0-OpenSSH_9.9\r\n"),
    "another version": sends(b"HTTP/2 200 OK\r\n\r\n"),
    "no status": sends(b"HTTP/1.1 twohundred OK\r\n\r\n"),
    "status of four digits": sends(b"HTTP/1.1 2000 OK\r\n\r\n"),
    "nul in a header": sends(OK + b"X: \x00\r\n\r\n"),
    "negative length": sends(OK + b"Content-Length: -1\r\n\r\nx"),
    "endless length": sends(OK + b"Content-Length: " + b"9" * 40 + b"\r\n\r\nx"),
    "two lengths": sends(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy"),
    "a chunk of no size": sends(CHUNKED + b"zz\r\n"),
    "a chunk of endless size": sends(CHUNKED + b"f" * 40 + b"\r\nx"),
    "less than its length": sends(OK + b"Content-Length: 100\r\n\r\nx"),
    "closed in a chunk": sends(CHUNKED + b"5\r\nab"),
    "a header without end": pours(OK + b"X: ", b"y" * 10_000),
    "headers without end": pours(OK, b"X: y\r\n" * 1_000),
    "a status line without end": pours(b"HTTP/1.1 200 ", b"y" * 10_000),
    "trailers without end": pours(CHUNKED + b"0\r\n", b"X: y\r\n" * 1_000),
    "noise without end": pours(b"", b"y" * 10_000),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_answer_that_is_broken_off_or_not_http_is_a_failed_connection(name, caplog):
    with Receiver(BROKEN[name]) as receiver:
        result = attempt(receiver.url())

        assert result.outcome == Outcome.CONNECTION
        assert len(receiver.requests) == 1
        assert 0 < len(result.detail) <= 200
        # Text that a database takes, about the answer and not about this program.
        result.detail.encode()
        assert not {"\x00", "\n"} & set(result.detail)
        assert " object at 0x" not in result.detail
        assert caplog.records == []  # expected, all of it


# --- Time -------------------------------------------------------------------------------------------------------------
SLOW = {
    "silent": (hangs(), None),
    "silent after the status": (hangs(OK), None),
    "silent after the headers": (hangs(OK + b"Content-Length: 5\r\n\r\n"), 200),
    "drips the status line": (drips(b"HTTP/1.1 200 ", b"y"), None),
    "drips a header": (drips(OK + b"X: ", b"y"), None),
    "drips headers": (drips(OK, b"X: y\r\n"), None),
    "drips a body": (drips(OK + b"Content-Length: 99999\r\n\r\n", b"y"), 200),
    "drips a body without length": (drips(OK + b"\r\n", b"y"), 200),
    "drips chunks": (drips(CHUNKED, b"1\r\ny\r\n"), 200),
    "drips an extension of a chunk": (drips(CHUNKED + b"1;", b"y"), 200),
    "drips interim answers": (drips(b"", b"HTTP/1.1 102 -\r\n\r\n"), None),
}


def test_answers_that_are_not_complete_in_time_are_timeouts():
    receivers = {name: Receiver(behaviour) for name, (behaviour, _) in SLOW.items()}

    async def work():
        async with open_session(CheckedResolver(at_loopback, allow_loopback=True)) as session:
            deliveries = [delivery_to(receiver.url()) for receiver in receivers.values()]
            return await asyncio.gather(*(send(session, one, [lambda _: b"v" * 64], BRIEF_S) for one in deliveries))

    with ExitStack() as stack:
        for receiver in receivers.values():
            stack.enter_context(receiver)
        results = dict(zip(receivers, asyncio.run(work()), strict=True))

    assert {name: result.outcome for name, result in results.items()} == dict.fromkeys(SLOW, Outcome.TIMEOUT)
    assert {name: result.status for name, result in results.items()} == {name: row[1] for name, row in SLOW.items()}
    assert {result.detail for result in results.values()} == {"No complete answer in time."}


def test_a_flood_of_interim_answers_is_a_timeout():
    with Receiver(pours(b"", b"HTTP/1.1 100 -\r\n\r\n" * 1_000)) as receiver:
        assert attempt(receiver.url(), timeout_s=HASTY_S).outcome == Outcome.TIMEOUT


def test_what_came_before_the_timeout_is_kept():
    with Receiver(hangs(b"HTTP/1.1 503 -\r\nRetry-After: 60\r\nContent-Length: 100\r\n\r\nbusy")) as receiver:
        result = attempt(receiver.url(), timeout_s=BRIEF_S)

        assert (result.outcome, result.status) == (Outcome.TIMEOUT, 503)
        assert (result.answer, result.retry_after) == ("busy", "60")


@pytest.mark.parametrize("name", ["http", "https"])
def test_a_connection_ends_with_its_attempt_even_if_the_receiver_does_not_take_leave(name, authority):
    left = threading.Event()

    def behave(exchange):
        # Below TLS, so that its farewell is not answered: left to itself, the client would wait for that.
        while socket.socket.recv(exchange.connection, 4096):
            pass
        left.set()

    async def work(url):
        async with open_session(CheckedResolver(at_loopback, allow_loopback=True)) as session:
            result = await send(session, delivery_to(url), [lambda _: b"v" * 64], BRIEF_S)
            return result.outcome, await asyncio.to_thread(left.wait, 20)

    with Receiver(behave, tls=authority.server("shop.example") if name == "https" else None) as receiver:
        assert asyncio.run(work(receiver.url(host="shop.example"))) == (Outcome.TIMEOUT, True)


# --- Attempts beside each other ---------------------------------------------------------------------------------------
def test_a_failed_attempt_does_not_spoil_the_next_ones():
    with Receiver(resets, sends(b"junk\r\n\r\n"), answers(500), answers(200)) as receiver:
        one = delivery_to(receiver.url())
        outcomes = [result.outcome for result in attempts(one, one, one, one)]

        assert outcomes == [Outcome.CONNECTION, Outcome.CONNECTION, Outcome.STATUS, Outcome.DELIVERED]


def test_what_nobody_expected_is_a_result_and_reported(caplog):
    async def lookup(host, port):
        raise RuntimeError("secret-value")

    result = attempt("http://shop.example/", lookup=lookup)

    assert (result.outcome, result.detail) == (Outcome.UNKNOWN, "Ended unexpectedly: RuntimeError.")
    assert "ended unexpectedly" in caplog.text


def test_an_attempt_that_is_cancelled_is_no_result_and_leaves_nothing_open():
    async def work(url):
        async with open_session(CheckedResolver(at_loopback, allow_loopback=True)) as session:
            task = asyncio.create_task(send(session, delivery_to(url), [lambda _: b"v" * 64]))
            await asyncio.to_thread(receiver.wait_for, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with Receiver(hangs()) as receiver:
        asyncio.run(work(receiver.url()))

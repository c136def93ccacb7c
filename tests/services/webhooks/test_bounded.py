"""However much a receiver sends, 128 KiB of it are taken: over HTTP and over HTTPS."""

import asyncio
import threading
from contextlib import ExitStack

import pytest

from services.models import Outcome
from services.webhooks.posting import open_session, send
from services.webhooks.resolving import CheckedResolver
from tests.services.webhooks.attempts import BRIEF_S, attempt, delivery_to
from tests.services.webhooks.behaviours import hangs, pours
from tests.services.webhooks.receivers import Receiver, at_loopback

MOST = 128 * 1024
KIB, MIB = 1024, 1024 * 1024
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"

pytestmark = pytest.mark.parametrize("scheme", ["http", "https"])


@pytest.fixture
def receiver_of(scheme, authority):
    def make(behaviour):
        return Receiver(behaviour, tls=authority.server("shop.example") if scheme == "https" else None)

    return make


def attempt_at(receiver):
    return attempt(receiver.url(host="shop.example"))


def answer_of(length):
    """Make a complete answer of so many bytes, almost all of them in the extension of a chunk."""
    fixed = CHUNKED + b"2;" + b"\r\nok\r\n" + END
    return CHUNKED + b"2;" + b"x" * (length - len(fixed)) + b"\r\nok\r\n" + END


# --- What takes too much ----------------------------------------------------------------------------------------------
# Each comes to a good end, if somebody reads that far.
LONG = {
    "one byte more": answer_of(MOST + 1),
    "an extension of a chunk": answer_of(8 * MIB),
    "extensions of chunks": CHUNKED + (b"1;" + b"x" * 4000 + b"\r\ny\r\n") * 500 + END,
    "small chunks": CHUNKED + b"1\r\ny\r\n" * 40_000 + END,
    "interim answers": b"HTTP/1.1 100 -\r\n\r\n" * 20_000 + OK + b"Content-Length: 0\r\n\r\n",
    "headers": OK + (b"X: " + b"y" * 4000 + b"\r\n") * 100 + b"Content-Length: 0\r\n\r\n",
    "trailers": CHUNKED + b"0\r\n" + (b"X: " + b"y" * 4000 + b"\r\n") * 100 + b"\r\n",
}
# Each has no end.
FLOODS = {
    "extensions of chunks": (CHUNKED, b"1;" + b"x" * 4000 + b"\r\ny\r\n"),
    "interim answers": (b"", b"HTTP/1.1 100 -\r\n\r\n"),
}


def outcomes_of(behaviours, receiver_of):
    """Attempt one delivery to each at the same time."""

    async def work(urls):
        async with open_session(CheckedResolver(at_loopback, allow_loopback=True)) as session:
            sent = [send(session, delivery_to(url), [lambda _: b"v" * 64], BRIEF_S) for url in urls]
            return [result.outcome for result in await asyncio.gather(*sent)]

    with ExitStack() as stack:
        receivers = [stack.enter_context(receiver_of(behaviour)) for behaviour in behaviours.values()]
        urls = [receiver.url(host="shop.example") for receiver in receivers]
        return dict(zip(behaviours, asyncio.run(work(urls)), strict=True))


def pours_128_mib(was_taken, head, wave):
    """Send the head and so much of waves; the network holds a few MiB of that."""

    def behave(exchange):
        exchange.send(head)
        for _ in range(128):
            exchange.send(wave * (MIB // len(wave) + 1))
        was_taken.set()

    return behave


def test_an_answer_that_goes_on_for_more_than_128_kib_without_a_body_is_a_timeout(receiver_of):
    behaviours = {name: hangs(answer) for name, answer in LONG.items()}

    assert outcomes_of(behaviours, receiver_of) == dict.fromkeys(LONG, Outcome.TIMEOUT)


def test_a_flood_is_not_even_received(receiver_of):
    was_taken = {name: threading.Event() for name in FLOODS}
    behaviours = {name: pours_128_mib(was_taken[name], *flood) for name, flood in FLOODS.items()}

    assert outcomes_of(behaviours, receiver_of) == dict.fromkeys(FLOODS, Outcome.TIMEOUT)
    assert [name for name, event in was_taken.items() if event.is_set()] == []


def test_an_answer_of_128_kib_is_read_to_its_end(receiver_of):
    with receiver_of(hangs(answer_of(MOST))) as receiver:
        result = attempt_at(receiver)

        assert (result.outcome, result.answer) == (Outcome.DELIVERED, "ok")


# --- What is long, and ordinary ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("length", [100 * KIB, MOST, 10 * MIB], ids=str)
@pytest.mark.parametrize("framing", ["length", "chunks", "until closed"])
def test_a_long_body_is_delivered(length, framing, receiver_of):
    head = {"length": OK + f"Content-Length: {length}\r\n\r\n".encode(), "chunks": CHUNKED}.get(framing, OK + b"\r\n")
    body = (b"400\r\n" + b"x" * KIB + b"\r\n") * (length // KIB) + END if framing == "chunks" else b"x" * length
    with receiver_of(lambda exchange: exchange.send(head + body)) as receiver:
        result = attempt_at(receiver)

        assert (result.outcome, result.status, result.answer) == (Outcome.DELIVERED, 200, "x" * 2048)


def test_a_body_without_end_is_delivered(receiver_of):
    with receiver_of(pours(OK + b"\r\n", b"x" * 10_000)) as receiver:
        assert attempt_at(receiver).outcome == Outcome.DELIVERED


def test_an_answer_that_is_no_success_may_be_long_too(receiver_of):
    head = b"HTTP/1.1 500 -\r\nContent-Length: 10485760\r\n\r\n"
    with receiver_of(lambda exchange: exchange.send(head + b"x" * 10 * MIB)) as receiver:
        result = attempt_at(receiver)

        assert (result.outcome, result.status) == (Outcome.STATUS, 500)

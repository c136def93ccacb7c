"""One attempt: one POST over a connection of its own, with all features off that a receiver could abuse.

No redirects, no proxy but the operator's, no cookies, no decompression, no second try; 15 s for all of it together,
however the receiver delays it; at most 64 KiB of its answer are read, within 128 KiB of anything it sends.
Source: docs/contract.md, "Webhooks".
"""

import asyncio
import functools
import logging
import os
import socket
import ssl
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import aiohttp
import certifi
from django.conf import settings
from yarl import URL

from foundation.kernel.times import utc_now
from services.models import Outcome
from services.webhooks.bounded import bound
from services.webhooks.failures import explain_failure
from services.webhooks.resolving import CheckedResolver
from services.webhooks.results import ClaimedDelivery, Result
from services.webhooks.signatures import sign_headers
from services.webhooks.tunnels import TunnelConnector

log = logging.getLogger(__name__)

TIMEOUT_S = 15.0
_READ_BYTES = 64 * 1024
_KEPT_BYTES = 2 * 1024
_AGENT = "Allowance-Webhooks/1"
# The sockets of the running attempt: aiohttp asks for them in the attempt's own task, or in tasks begun there.
_sockets: ContextVar[list[socket.socket]] = ContextVar("_sockets")


def open_session(resolver: CheckedResolver) -> AbstractAsyncContextManager[aiohttp.ClientSession]:
    """Open a client that keeps nothing from one request to the next."""
    connector = _make_connector(
        resolver,
        resolver=resolver,
        use_dns_cache=False,
        force_close=True,
        limit=0,
        ssl=_trust(os.environ.get("SSL_CERT_FILE") or certifi.where()),
    )
    bound(connector)
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        trust_env=False,
        headers={"User-Agent": _AGENT},
        auto_decompress=False,
    )


def _make_connector(checks: CheckedResolver, **options: Any) -> aiohttp.TCPConnector:
    """Connect to addresses that pass the checks: directly, or through the operator's proxy and in no other way."""

    def adopt(opened: Any) -> None:
        _sockets.get().append(opened)

    def open_socket(address: Any) -> socket.socket:
        opened = checks.open_socket(address)
        adopt(opened)
        return opened

    if settings.WEBHOOK_PROXY is not None:
        return TunnelConnector(settings.WEBHOOK_PROXY, checks.check, adopt, **options)
    return aiohttp.TCPConnector(socket_factory=open_socket, **options)


@functools.cache
def _trust(certificates: str) -> ssl.SSLContext:
    # Reading them takes some 30 ms, and a session is opened every second, even if nothing is due.
    return ssl.create_default_context(cafile=certificates)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of one POST. `answer` is the beginning of the body, `retry_after` the header; "" without one."""

    duration_ms: int
    outcome: Outcome
    status: int | None
    detail: str
    answer: str
    retry_after: str


async def send(
    session: aiohttp.ClientSession,
    delivery: ClaimedDelivery,
    signers: Sequence[Callable[[bytes], bytes]],
    timeout_s: float = TIMEOUT_S,
) -> Result:
    """Attempt a delivery once; every failure is a result, that of the signer excepted."""
    started_at = utc_now()
    headers = sign_headers(delivery.event_id, delivery.body, started_at, delivery.secrets, *signers)
    attempt = await post(session, delivery.url, delivery.body, headers, timeout_s)
    return Result(
        delivery=delivery,
        started_at=started_at,
        duration_ms=attempt.duration_ms,
        outcome=attempt.outcome,
        status=attempt.status,
        detail=attempt.detail,
        answer=attempt.answer,
        retry_after=attempt.retry_after,
    )


async def post(
    session: aiohttp.ClientSession,
    url: str,
    body: bytes,
    headers: Mapping[str, str] = MappingProxyType({}),
    timeout_s: float = TIMEOUT_S,
) -> Attempt:
    """Post JSON once; every failure is an outcome."""
    began = time.monotonic()
    answer = _Answer()
    failure = await _attempt(_post(session, url, body, headers, answer), timeout_s)
    outcome, detail = failure or (Outcome.DELIVERED if answer.is_success else Outcome.STATUS, "")
    duration_ms = round((time.monotonic() - began) * 1000)
    return Attempt(duration_ms, outcome, answer.status, detail, answer.beginning, answer.retry_after)


async def find_obstacle(session: aiohttp.ClientSession, url: str, timeout_s: float) -> tuple[Outcome, str] | None:
    """Connect to a receiver as `post` does, and hang up with nothing sent; returns what failed, and how."""

    async def connect() -> None:
        request = aiohttp.ClientRequest("POST", URL(url, encoded=True), loop=asyncio.get_running_loop())
        connector: Any = session.connector
        (await connector.connect(request, [], aiohttp.ClientTimeout())).close()

    return await _attempt(connect(), timeout_s)


async def _attempt(work: Coroutine[Any, Any, None], timeout_s: float) -> tuple[Outcome, str] | None:
    """Let a connection do its work, and close it; returns what failed, and how."""
    sockets: list[socket.socket] = []
    _sockets.set(sockets)
    try:
        async with asyncio.timeout(timeout_s):
            await work
    except Exception as error:  # noqa: BLE001 - a receiver that finds a way to confuse the client has failed
        return explain_failure(error)
    finally:
        _hang_up(sockets)
    return None


@dataclass
class _Answer:
    """The part of an answer that arrived before its end, or before the failure."""

    status: int | None = None
    retry_after: str = ""
    body: bytearray = field(default_factory=bytearray)

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status <= 299  # noqa: PLR2004 - RFC 9110

    @property
    def beginning(self) -> str:
        return bytes(self.body[:_KEPT_BYTES]).decode(errors="replace").replace("\x00", "\ufffd")


async def _post(
    session: aiohttp.ClientSession, to: str, body: bytes, headers: Mapping[str, str], answer: _Answer
) -> None:
    url = URL(to, encoded=True)  # as it was registered: what looks encoded is not encoded again
    sent = {**headers, "Content-Type": "application/json", "Accept-Encoding": "identity"}
    async with session.post(url, data=body, headers=sent, allow_redirects=False) as response:
        answer.status = response.status
        answer.retry_after = response.headers.get("Retry-After", "")
        while len(answer.body) < _READ_BYTES and (part := await response.content.read(_READ_BYTES - len(answer.body))):
            answer.body += part
        response.close()


def _hang_up(sockets: list[socket.socket]) -> None:
    """Close connections now. TLS would wait another 30 s for a receiver that does not close its side."""
    for opened in sockets:
        with suppress(OSError):  # it is closed already
            opened.shutdown(socket.SHUT_RDWR)

"""Connect through the operator's egress proxy: `CONNECT` to an address that was checked here, and TLS to the payee.

The proxy is told the address, not the name: what it connects to is what was checked, whatever a name server tells it.
It sees the name in the TLS handshake, which goes to the payee, and nothing of what is sent.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, NoReturn

import aiohttp
import certifi
from aiohttp.client_proto import ResponseHandler

from foundation.environment.egress_proxy import EgressProxy
from services.webhooks.ip_addresses import Address, read_address

_HEAD_END = b"\r\n\r\n"
_MOST_BYTES = 16 * 1024


class ProxyFailed(OSError):
    """Raise when the proxy does not let a connection through; says why. An OSError, as `BlockedAddress` is."""


class TunnelConnector(aiohttp.TCPConnector):
    """Make every connection through a proxy.

    `check` raises an OSError if an address may not be connected to; `adopt` takes the socket of each connection.
    """

    def __init__(
        self, proxy: EgressProxy, check: Callable[[Address], None], adopt: Callable[[Any], None], **options: Any
    ) -> None:
        # aiohttp opens no socket itself: if it ever made connections in another way, they would fail.
        super().__init__(socket_factory=_refuse, **options)
        self._proxy, self._check, self._adopt = proxy, check, adopt

    async def _wrap_create_connection(  # aiohttp has no other place for this
        self,
        *args: Any,
        addr_infos: list[Any],
        req: aiohttp.ClientRequest,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's signature
        client_error: type[Exception] = aiohttp.ClientConnectorError,
        **kwargs: Any,
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        (make,), (host, port) = args, addr_infos[0][4][:2]
        try:
            self._check(read_address(host))
            tunnel = await self._open_tunnel(host, port)
            return await _begin(tunnel, make(), kwargs["ssl"], kwargs["server_hostname"])
        except OSError as error:
            raise client_error(req.connection_key, error) from error

    async def _open_tunnel(self, host: str, port: int) -> asyncio.Transport:
        proxy = self._proxy
        tls = ssl.create_default_context(cafile=proxy.certificates or certifi.where()) if proxy.is_tls else None
        try:
            transport, asking = await self._loop.create_connection(_Asking, proxy.host, proxy.port, ssl=tls)
        except OSError as error:
            raise ProxyFailed(f"The egress proxy is away: {error.strerror or error}") from error
        self._adopt(transport.get_extra_info("socket"))
        try:
            destination = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            login = f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
            transport.write(f"CONNECT {destination} HTTP/1.1\r\nHost: {destination}\r\n{login}\r\n".encode())
            _check_answer(await asking.answer)
        except BaseException:
            transport.abort()
            raise
        return transport


class _Asking(asyncio.Protocol):
    """Collects what a proxy answers to `CONNECT`."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        if (_HEAD_END in self._received or len(self._received) > _MOST_BYTES) and not self.answer.done():
            self.answer.set_result(self._received)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_exception(ProxyFailed("The egress proxy closed the connection without an answer."))


def _check_answer(answer: bytes) -> None:
    """Let the tunnel be used.

    Raises:
        ProxyFailed: the proxy refused, or did not answer in HTTP.
    """
    head, _, rest = answer.partition(_HEAD_END)
    version, _, status = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    if not version.startswith("HTTP/1.") or not status[:3].isdecimal():
        raise ProxyFailed("The egress proxy does not answer in HTTP.")
    if not status.startswith("2"):
        raise ProxyFailed(f"The egress proxy refused: {status}")
    if rest:  # the payee speaks only when it is spoken to
        raise ProxyFailed("The egress proxy sent something into the tunnel.")


async def _begin(
    tunnel: asyncio.Transport, protocol: ResponseHandler, tls: ssl.SSLContext | None, name: str | None
) -> tuple[asyncio.Transport, ResponseHandler]:
    """Speak through a tunnel: in TLS with the host of this name, or without, as is allowed on a developer's machine."""
    if tls is None:
        tunnel.set_protocol(protocol)
        protocol.connection_made(tunnel)
        return tunnel, protocol
    secured = await asyncio.get_running_loop().start_tls(tunnel, protocol, tls, server_hostname=name)
    if secured is None:
        raise ProxyFailed("The tunnel was closed before TLS began.")
    protocol.connection_made(secured)
    return secured, protocol


def _refuse(_address: Any) -> NoReturn:
    raise ProxyFailed("Nothing leaves but through the egress proxy.")

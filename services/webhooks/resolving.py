"""Resolve a host's name to addresses that may be connected to, and refuse connections to any other.

Every address of the name is checked, and the connection goes to one of those: a name server that answers differently
afterwards changes nothing. Source: docs/contract.md, "Webhooks".
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from ipaddress import IPv4Address
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from services.webhooks.ip_addresses import Address, is_public, read_address

# Gives the addresses of a host, as text; raises OSError.
Lookup = Callable[[str, int], Awaitable[Sequence[str]]]

_MOST_LOOKUPS = 512
# A name may have hundreds, each of which would be tried: nobody shall use us as a port scanner.
_MOST_ADDRESSES = 8
_RECEIVE_BYTES = 32 * 1024


class BlockedAddress(OSError):
    """Raise when events may not go to an address; says which.

    An OSError: only those get through all of aiohttp, as the cause of what it raises.
    """


class CheckedResolver(AbstractResolver):
    """Resolve a name for aiohttp, or refuse it.

    One address that is not public condemns the name: nobody mixes them by mistake. With `allow_loopback`, which is for
    development, events may go to this machine, too.
    """

    def __init__(
        self, lookup: Lookup, *, allow_loopback: bool, is_own: Callable[[Address], bool] | None = None
    ) -> None:
        self._lookup = lookup
        self._allow_loopback = allow_loopback
        self._is_own = is_own or is_own_address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        addresses = [read_address(text) for text in await self._lookup(host, port)]
        if not addresses:
            raise OSError(f"{host} has no address.")
        for address in addresses:
            self.check(address)
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=_family(address),
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses[:_MOST_ADDRESSES]
        ]

    async def close(self) -> None:
        """Hold nothing that had to be released."""

    def check(self, address: Address) -> None:
        """Let an address pass.

        Raises:
            BlockedAddress: it is not public, or this machine's own.
        """
        if address.is_loopback and self._allow_loopback:
            return
        if not is_public(address) or self._is_own(address):
            raise BlockedAddress(f"{address} is not a public address.")

    def open_socket(self, address: Any) -> socket.socket:
        """Make the socket for a connection of aiohttp, after a last check of its address, however it was found."""
        family, kind, protocol, _, destination = address
        self.check(read_address(destination[0]))
        opened = socket.socket(family, kind, protocol)
        # Buffer little of what a receiver sends ahead: it costs memory, and time of the others to parse.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        opened.setblocking(False)  # noqa: FBT003 - the standard library's own
        return opened


def is_own_address(address: Address) -> bool:
    """Tell whether a public address is one of this machine's interfaces. Nothing is sent."""
    try:
        with socket.socket(_family(address), socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return read_address(probe.getsockname()[0]) == address
    except OSError:  # there is no way there, or no IPv6 at all
        return False


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6


async def look_up(host: str, port: int) -> Sequence[str]:
    """Ask the system's resolver for all IPv4 and IPv6 addresses of a host.

    In a thread for each name that is being looked up: slow name servers of some payees must not delay the others. A
    thread that hangs ends when the system gives up on it, and counts against the process's most until then.
    """
    found = await asyncio.get_running_loop().run_in_executor(_lookup_threads(), _ask_system, host, port)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@cache
def _lookup_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_MOST_LOOKUPS, thread_name_prefix="lookup")


def _ask_system(host: str, port: int) -> list[Any]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # the codec of names refuses it before anybody is asked
        raise socket.gaierror(socket.EAI_NONAME, "Not the name of a host.") from error

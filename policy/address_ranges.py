"""Ranges of addresses from which a key is accepted, in CIDR form, IPv4 and IPv6. Pure."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

MOST_RANGES = 50
_KEYS_REMEMBERED = 10_000


def read_ranges(texts: Iterable[str]) -> list[str]:
    """Write ranges in their one form, each once; a single address is a range, too.

    Raises:
        ValueError: says which is no range, or that there are too many.
    """
    ranges = sorted({str(_read(text.strip())) for text in texts})
    if len(ranges) > MOST_RANGES:
        raise ValueError(f"A key has at most {MOST_RANGES} address ranges.")
    return ranges


def is_inside(address: str | None, ranges: Sequence[str]) -> bool:
    """Tell whether a client's address is in one of the ranges. An address that is not known is in none."""
    if address is None:
        return False
    client = ip_address(address)
    return any(client in network for network in _networks(tuple(ranges)))


def _read(text: str) -> IPv4Network | IPv6Network:
    try:
        network = ip_network(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no address range, such as 203.0.113.0/24 or 2001:db8::/32: {error}.") from error
    if isinstance(network, IPv6Network) and network.network_address.ipv4_mapped is not None:
        raise ValueError(f"{text!r}: write an IPv4 range as such, without ::ffff.")
    return network


@lru_cache(maxsize=_KEYS_REMEMBERED)
def _networks(ranges: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(text) for text in ranges)

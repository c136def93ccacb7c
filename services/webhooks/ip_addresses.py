"""Tell which IP addresses events may be sent to: public ones, as seen from anywhere. Pure.

`ipaddress.is_global` alone lets through what leads back inside: translations (NAT64, 6to4, Teredo), multicast, anycast
relays; and what later lists added.
Source: docs/contract.md, "Webhooks"; docs/background.md, "Webhook addresses".
"""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address

_GLOBAL_UNICAST = IPv6Network("2000::/3")
# Networks that is_global of a supported Python calls global, or that may be translated to an address that is not.
_NOT_PUBLIC = tuple(
    ip_network(network)
    for network in (
        "100.64.0.0/10",  # shared by carriers (RFC 6598)
        "192.88.99.0/24",  # relays of 6to4 (RFC 7526)
        "192.0.0.0/24",  # protocol assignments, whole
        "64:ff9b::/96",  # NAT64 (RFC 6052): holds an IPv4 address
        "64:ff9b:1::/48",  # NAT64 of a local network (RFC 8215)
        "2001::/23",  # protocol assignments, Teredo (RFC 4380) among them: holds IPv4 addresses
        "2002::/16",  # 6to4 (RFC 3056): holds an IPv4 address
        "3fff::/20",  # documentation (RFC 9637)
        "5f00::/16",  # segment routing (RFC 9602)
    )
)


def read_address(text: str) -> Address:
    """Read an address as a resolver gives it; an IPv4 address mapped into IPv6 is the IPv4 address.

    Raises:
        ValueError: it is none.
    """
    address = ip_address(text)
    return getattr(address, "ipv4_mapped", None) or address


def is_public(address: Address) -> bool:
    """Tell whether an address is one host on the internet, for everybody the same one."""
    if isinstance(address, IPv6Address) and (address not in _GLOBAL_UNICAST or address.scope_id is not None):
        return False
    if any(address in network for network in _NOT_PUBLIC if network.version == address.version):
        return False
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not address.is_unspecified
        and not address.is_link_local
        and not address.is_loopback
    )

"""Public addresses, by IANA's special-purpose registries of 2025 and what leads back inside."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.webhooks.ip_addresses import is_public, read_address

# Each is refused whole. "before" and "after": its neighbours, where those are public.
RANGES = [
    ("0.0.0.0/8", "this network", {"after"}),
    ("10.0.0.0/8", "private", {"before", "after"}),
    ("100.64.0.0/10", "shared by carriers", {"before", "after"}),
    ("127.0.0.0/8", "loopback", {"before", "after"}),
    ("169.254.0.0/16", "link-local, and clouds' metadata", {"before", "after"}),
    ("172.16.0.0/12", "private", {"before", "after"}),
    ("192.0.0.0/24", "protocol assignments", {"before", "after"}),
    ("192.0.2.0/24", "documentation", {"before", "after"}),
    ("192.88.99.0/24", "relays of 6to4", {"before", "after"}),
    ("192.168.0.0/16", "private", {"before", "after"}),
    ("198.18.0.0/15", "benchmarks", {"before", "after"}),
    ("198.51.100.0/24", "documentation", {"before", "after"}),
    ("203.0.113.0/24", "documentation", {"before", "after"}),
    ("224.0.0.0/4", "multicast", {"before"}),
    ("240.0.0.0/4", "reserved", set()),
    ("255.255.255.255/32", "broadcast", set()),
    ("::/128", "unspecified", set()),
    ("::1/128", "loopback", set()),
    ("::/96", "IPv4-compatible", set()),
    ("64:ff9b::/96", "NAT64", set()),
    ("64:ff9b:1::/48", "NAT64 of a local network", set()),
    ("100::/64", "discarded", set()),
    ("100:0:0:1::/64", "dummies", set()),
    ("2001::/32", "Teredo", {"before"}),
    ("2001:2::/48", "benchmarks", set()),
    ("2001:10::/28", "ORCHID", set()),
    ("2001:20::/28", "ORCHIDv2", set()),
    ("2001:30::/28", "drones", set()),
    ("2001::/23", "protocol assignments", {"before", "after"}),
    ("2001:db8::/32", "documentation", {"before", "after"}),
    ("2002::/16", "6to4", {"before", "after"}),
    ("3fff::/20", "documentation", {"before", "after"}),
    ("4000::/3", "not assigned", {"before"}),
    ("5f00::/16", "segment routing", set()),
    ("fc00::/7", "unique local", set()),
    ("fe80::/10", "link-local", set()),
    ("fec0::/10", "site-local", set()),
    ("ff00::/8", "multicast", set()),
]
PRIVATE_IPV4 = [str(ip_network(network)[0]) for network, *_ in RANGES if ":" not in network] + ["169.254.169.254"]
# IANA calls what is special among these (AS112, AMT) globally reachable.
PUBLIC_IPV4 = ["1.1.1.1", "8.8.8.8", "93.184.215.14", "192.31.196.1", "192.52.193.1", "192.175.48.1", "223.255.255.255"]
PUBLIC_IPV6 = ["2606:4700::1111", "2001:4860:4860::8888", "2620:4f:8000::1", "2a00:1450:4001:80b::200e", "2c0f:fb50::1"]


@pytest.mark.parametrize(("network", "purpose", "public_neighbours"), RANGES)
def test_a_range_that_is_not_public_is_refused_from_its_first_address_to_its_last(network, purpose, public_neighbours):
    whole = ip_network(network)
    for address in {whole[0], whole[-1], whole[whole.num_addresses // 2]}:
        assert not is_public(read_address(str(address))), f"{address}: {purpose}"
    neighbours = {"before": lambda: whole[0] - 1, "after": lambda: whole[-1] + 1}
    for name in public_neighbours:
        assert is_public(neighbours[name]()), f"{name} {network}"


@pytest.mark.parametrize("text", [*PUBLIC_IPV4, *PUBLIC_IPV6])
def test_a_public_address_passes(text):
    assert is_public(read_address(text))


@pytest.mark.parametrize("text", PUBLIC_IPV4)
def test_a_public_ipv4_address_passes_when_it_is_mapped_into_ipv6(text):
    address = read_address(f"::ffff:{text}")

    assert address == IPv4Address(text)
    assert is_public(address)


FORMS = {
    "mapped": lambda ipv4: (0xFFFF << 32) + ipv4,
    "compatible": lambda ipv4: ipv4,
    "translated (RFC 2765)": lambda ipv4: (0xFFFF << 48) + ipv4,
    "NAT64": lambda ipv4: int(IPv6Address("64:ff9b::")) + ipv4,
    "NAT64 of a local network": lambda ipv4: int(IPv6Address("64:ff9b:1::")) + ipv4,
    "6to4": lambda ipv4: int(IPv6Address("2002::")) + (ipv4 << 80) + 1,
    "Teredo, server": lambda ipv4: int(IPv6Address("2001::")) + (ipv4 << 64),
    "Teredo, client": lambda ipv4: int(IPv6Address("2001:0:808:808::")) + (ipv4 ^ 0xFFFFFFFF),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", PRIVATE_IPV4)
def test_an_ipv4_address_inside_is_refused_in_every_form_that_ipv6_has_for_it(form, text):
    assert not is_public(read_address(str(IPv6Address(FORMS[form](int(IPv4Address(text)))))))


@pytest.mark.parametrize("form", [form for form in FORMS if form != "mapped"])
@pytest.mark.parametrize("text", PUBLIC_IPV4)
def test_what_has_to_be_translated_is_refused_whatever_is_inside(form, text):
    assert not is_public(read_address(str(IPv6Address(FORMS[form](int(IPv4Address(text)))))))


@pytest.mark.parametrize("text", ["fe80::1%eth0", "fe80::1%1", "::1%lo", "ff02::1%eth0", "2606:4700::1111%eth0"])
def test_an_address_that_means_something_on_one_interface_only_is_refused(text):
    assert not is_public(read_address(text))


@pytest.mark.parametrize(
    "text", ["", "example.com", "127.1", "0177.0.0.1", "0x7f000001", "2130706433", "10.0.0.0/8", "::g"]
)
def test_what_is_no_address_is_none(text):
    with pytest.raises(ValueError, match="address"):
        read_address(text)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_public_exactly_if_it_is_in_no_range_that_is_not(address):
    networks = [ip_network(network) for network, *_ in RANGES if ":" not in network]

    assert is_public(address) == (not any(address in network for network in networks))


@given(st.ip_addresses(v=6))
def test_an_ipv6_address_is_public_exactly_if_it_is_global_unicast_and_in_no_range_that_is_not(address):
    networks = [ip_network(network) for network, *_ in RANGES if ":" in network]
    is_outside = address in ip_network("2000::/3") and not any(address in network for network in networks)

    assert is_public(address) == is_outside

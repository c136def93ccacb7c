"""Where a key is accepted from, and what a client's address is."""

import re

import pytest

from foundation.api.client_address import client_address
from policy.address_ranges import MOST_RANGES, is_inside, read_ranges


def test_ranges_are_written_in_their_one_form_each_once():
    assert read_ranges(["203.0.113.7", " 2001:DB8::/32 ", "203.0.113.7/32"]) == ["2001:db8::/32", "203.0.113.7/32"]


@pytest.mark.parametrize("text", ["", "everywhere", "203.0.113.7/24", "203.0.113.0/33", "::ffff:203.0.113.0/120"])
def test_what_is_no_range_is_refused_by_its_text(text):
    with pytest.raises(ValueError, match=f"^{re.escape(repr(text))}"):
        read_ranges([text])


def test_a_key_has_no_more_ranges_than_are_read_at_a_glance():
    ranges = [f"203.0.113.{number}" for number in range(MOST_RANGES + 1)]

    assert len(read_ranges(ranges[1:])) == MOST_RANGES
    with pytest.raises(ValueError, match="at most"):
        read_ranges(ranges)


@pytest.mark.parametrize(
    ("address", "is_in"),
    [
        ("203.0.112.255", False),
        ("203.0.113.0", True),
        ("203.0.113.255", True),
        ("203.0.114.0", False),
        ("2001:db8::1", True),
        ("2001:db9::", False),
        (None, False),
    ],
)
def test_an_address_is_inside_from_the_first_to_the_last_of_a_range(address, is_in):
    assert is_inside(address, ["203.0.113.0/24", "2001:db8::/32"]) is is_in


@pytest.mark.parametrize(
    ("proxies", "connected", "forwarded", "address"),
    [
        # Without proxies of ours the header is the client's own words.
        (0, "203.0.113.7", "198.51.100.1", "203.0.113.7"),
        (0, "::ffff:203.0.113.7", None, "203.0.113.7"),
        (0, "2001:DB8:0::1", None, "2001:db8::1"),
        (0, "", None, None),
        # What stands left of what our proxies wrote is the client's, too.
        (1, "10.0.0.1", "198.51.100.1, 203.0.113.7", "203.0.113.7"),
        (1, "10.0.0.1", "203.0.113.7:4711", "203.0.113.7"),
        (1, "10.0.0.1", "[2001:db8::1]:4711", "2001:db8::1"),
        (2, "10.0.0.1", "198.51.100.1, 203.0.113.7, 10.0.0.2", "203.0.113.7"),
        # Who comes past a proxy is nobody that we know.
        (1, "203.0.113.7", None, None),
        (2, "10.0.0.1", "203.0.113.7", None),
        (1, "10.0.0.1", "203.0.113.7, unknown", None),
    ],
)
def test_a_clients_address_is_what_our_outermost_proxy_saw(settings, proxies, connected, forwarded, address):
    settings.TRUSTED_PROXIES = proxies
    meta = {"REMOTE_ADDR": connected} | ({} if forwarded is None else {"HTTP_X_FORWARDED_FOR": forwarded})

    assert client_address(meta) == address

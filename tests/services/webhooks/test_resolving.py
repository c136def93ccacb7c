"""No connection but to a checked address: names that lead inside, names that change their mind, and no names at all."""

import asyncio
import socket
import threading

import aiohttp
import pytest

from services.models import Outcome
from services.webhooks import resolving
from services.webhooks.ip_addresses import read_address
from services.webhooks.resolving import BlockedAddress, CheckedResolver, is_own_address, look_up
from tests.services.webhooks.attempts import HASTY_S, attempt, attempts, delivery_to
from tests.services.webhooks.receivers import Receiver, refused_port

PUBLIC = ["93.184.215.14", "2606:4700::1111"]


class Names:
    """A name server that gives one answer after the other, the last one again and again."""

    def __init__(self, *answers):
        self._answers = list(answers)
        self.asked = []

    async def __call__(self, host, port):
        self.asked.append((host, port))
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def resolve(*addresses, allow_loopback=False):
    """Resolve a name that has these addresses; returns where a connection may go."""
    resolver = CheckedResolver(Names(addresses), allow_loopback=allow_loopback)
    return [(found["host"], found["port"]) for found in asyncio.run(resolver.resolve("shop.example", 8443))]


def dial(address, *, allow_loopback=False):
    """Open the socket that aiohttp would connect to an address, wherever it has it from."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    resolver = CheckedResolver(Names([]), allow_loopback=allow_loopback)
    with resolver.open_socket((family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, 443))) as opened:
        return opened.family


def address_of_this_machine():
    """Find the address that this machine has on the network, if any; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("This machine has no network.")
        return probe.getsockname()[0]


# --- Names ------------------------------------------------------------------------------------------------------------
def test_a_name_leads_to_all_its_addresses_if_they_are_public():
    assert resolve(*PUBLIC) == [("93.184.215.14", 8443), ("2606:4700::1111", 8443)]


def test_a_mapped_address_is_connected_to_as_the_ipv4_address_that_was_checked():
    assert resolve("::ffff:93.184.215.14") == [("93.184.215.14", 8443)]


@pytest.mark.parametrize(
    "bad", ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "fe80::1%lo"]
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_address_that_is_not_public_condemns_the_name(bad, place):
    addresses = list(PUBLIC)
    addresses.insert(place, bad)

    with pytest.raises(BlockedAddress, match="is not a public address"):
        resolve(*addresses)


def test_a_bad_address_behind_many_good_ones_condemns_the_name_and_of_the_good_ones_only_some_are_tried():
    many = [f"93.184.215.{number}" for number in range(200)]

    assert len(resolve(*many)) == 8
    with pytest.raises(BlockedAddress):
        resolve(*many, "10.0.0.1")


def test_development_admits_this_machine_and_nothing_else():
    assert resolve("127.0.0.1", "::1", allow_loopback=True) == [("127.0.0.1", 8443), ("::1", 8443)]
    for bad in ["10.0.0.1", "0.0.0.0", "::", "192.168.1.1"]:  # noqa: S104 - an address to connect to
        with pytest.raises(BlockedAddress):
            resolve("127.0.0.1", bad, allow_loopback=True)


def test_a_name_without_an_address_is_a_failure_of_dns():
    assert attempt("http://shop.example/", lookup=Names([])).outcome == Outcome.DNS


def test_a_name_that_does_not_exist_is_a_failure_of_dns():
    async def lookup(host, port):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    result = attempt("http://shop.example/", lookup=lookup)

    assert result.outcome == Outcome.DNS
    assert "Name or service not known" in result.detail


@pytest.mark.parametrize("host", ["a..example", f"{'a' * 64}.example"])
def test_what_cannot_be_a_name_is_a_failure_of_dns(host):
    assert attempt(f"http://{host}/", lookup=look_up).outcome == Outcome.DNS


def test_a_name_server_that_hangs_is_a_timeout():
    async def lookup(host, port):
        await asyncio.Event().wait()

    assert attempt("http://shop.example/", lookup=lookup, timeout_s=HASTY_S).outcome == Outcome.TIMEOUT


def test_the_systems_lookup_finds_each_address_once():
    found = asyncio.run(look_up("localhost", 443))

    assert "127.0.0.1" in found or "::1" in found
    assert len(found) == len(set(found))


def test_lookups_that_hang_count_against_the_process_not_against_one_courier(monkeypatch):
    asked, go_on = [], threading.Event()

    def hang(host, *_, **__):
        asked.append(host)
        go_on.wait()
        return []

    async def look_up_and_give_up(*hosts):
        await asyncio.wait([asyncio.ensure_future(look_up(host, 443)) for host in hosts], timeout=HASTY_S)

    monkeypatch.setattr(resolving, "_MOST_LOOKUPS", 2)
    monkeypatch.setattr(socket, "getaddrinfo", hang)
    resolving._lookup_threads.cache_clear()
    try:
        for courier in "ab":
            asyncio.run(look_up_and_give_up(f"1.{courier}.example", f"2.{courier}.example"))

        assert asked == ["1.a.example", "2.a.example"]
    finally:
        go_on.set()
        resolving._lookup_threads.cache_clear()


# --- Answers that change ----------------------------------------------------------------------------------------------
def test_a_name_that_is_public_when_it_is_checked_cannot_become_this_machine_when_it_is_connected_to():
    with Receiver() as inside:
        # At the first address nobody listens. Were the name looked up again, the request would arrive inside.
        names = Names(["127.0.0.2"], ["127.0.0.1"])
        result = attempt(f"http://shop.example:{inside.port}/", lookup=names)

        assert names.asked == [("shop.example", inside.port)]
        assert result.outcome == Outcome.CONNECTION
        assert inside.requests == []


def test_the_connection_goes_to_the_address_that_was_checked():
    with Receiver(address="127.0.0.3") as receiver:
        names = Names(["127.0.0.3"], ["127.0.0.1"])
        result = attempt(receiver.url(host="shop.example"), lookup=names)

        assert result.outcome == Outcome.DELIVERED
        assert len(names.asked) == 1
        assert receiver.requests[0].header("host") == f"shop.example:{receiver.port}"


def test_every_attempt_looks_the_name_up_and_checks_it_again():
    with Receiver() as receiver:
        names = Names(["127.0.0.1"], ["10.0.0.1"], ["127.0.0.1"])
        one = delivery_to(receiver.url(host="shop.example"))
        outcomes = [result.outcome for result in attempts(one, one, one, lookup=names)]

        assert outcomes == [Outcome.DELIVERED, Outcome.BLOCKED_ADDRESS, Outcome.DELIVERED]
        assert len(receiver.requests) == 2


@pytest.mark.parametrize("answer", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::"])  # noqa: S104 - as above
def test_a_name_that_leads_to_this_machine_is_blocked_before_a_connection_is_made(answer):
    with Receiver() as receiver:
        result = attempt(receiver.url(host="shop.example"), lookup=Names([answer]), allow_loopback=False)

        assert result.outcome == Outcome.BLOCKED_ADDRESS
        assert result.detail.endswith("is not a public address.")
        assert receiver.requests == []


# --- Addresses instead of names ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]", "10.0.0.1", "[64:ff9b::7f00:1]"],  # noqa: S104
)
def test_an_address_in_the_url_is_checked_though_nothing_is_looked_up(host):
    names = Names(PUBLIC)
    with Receiver() as receiver:
        result = attempt(receiver.url(host=host), lookup=names, allow_loopback=False)

        assert result.outcome == Outcome.BLOCKED_ADDRESS
        assert names.asked == []
        assert receiver.requests == []


@pytest.mark.parametrize("host", ["2130706433", "127.1", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "127.0.0.1."])
def test_another_spelling_of_an_address_in_the_url_leads_nowhere(host):
    with Receiver() as receiver:
        result = attempt(receiver.url(host=host), lookup=look_up, allow_loopback=False)

        assert result.outcome in {Outcome.BLOCKED_ADDRESS, Outcome.CONNECTION, Outcome.DNS}
        assert receiver.requests == []


# --- The last look ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.1", "::1", "::ffff:127.0.0.1", "fe80::1%lo", "169.254.169.254"]
)
def test_no_socket_is_opened_for_an_address_that_is_not_public(address):
    with pytest.raises(BlockedAddress):
        dial(address)


def test_a_socket_is_opened_for_a_public_address_and_in_development_for_this_machine():
    assert dial("93.184.215.14") == socket.AF_INET
    assert dial("127.0.0.1", allow_loopback=True) == socket.AF_INET


@pytest.mark.parametrize("count", [1, 2])
def test_aiohttp_reports_what_the_last_look_refused_however_many_addresses_there_are(count):
    class Careless(CheckedResolver):
        """Forget the check that comes first."""

        async def resolve(self, host, port=0, family=socket.AF_UNSPEC):
            return [
                {
                    "hostname": host,
                    "host": f"127.0.0.{number + 1}",
                    "port": port,
                    "family": family,
                    "proto": 0,
                    "flags": 0,
                }
                for number in range(count)
            ]

    async def connect():
        resolver = Careless(Names([]), allow_loopback=False)
        connector = aiohttp.TCPConnector(resolver=resolver, socket_factory=resolver.open_socket)
        async with aiohttp.ClientSession(connector=connector) as session, session.get(f"http://x.example:{port}"):
            pass

    with refused_port() as port, pytest.raises(aiohttp.ClientConnectorError) as failed:
        asyncio.run(connect())
    assert isinstance(failed.value.os_error, BlockedAddress)


# --- This machine under a public address ------------------------------------------------------------------------------
def test_an_address_is_this_machines_own_if_an_interface_has_it():
    assert is_own_address(read_address("127.0.0.1"))
    assert is_own_address(read_address(address_of_this_machine()))
    for address in PUBLIC:
        assert not is_own_address(read_address(address))


def test_this_machines_own_address_is_refused_even_if_it_is_public():
    own = PUBLIC[0]
    resolver = CheckedResolver(Names(PUBLIC), allow_loopback=False, is_own=lambda address: str(address) == own)

    with pytest.raises(BlockedAddress, match=own):
        asyncio.run(resolver.resolve("shop.example", 443))
    with pytest.raises(BlockedAddress, match=own):
        resolver.open_socket((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (own, 443)))

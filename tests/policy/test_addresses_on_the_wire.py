"""Address ranges of keys in real processes: on each of them, for each request, whatever the client's headers say."""

from collections.abc import Iterator

import pytest
import requests

from policy.key_operations import create_api_key
from policy.models import ApiKey
from tests.support.factories import new_name
from tests.support.servers import Servers
from tests.support.wire import connect, read_answer

pytestmark = pytest.mark.usefixtures("committed")


@pytest.fixture(scope="module")
def behind_proxies(django_db_setup: None) -> Iterator[str]:
    """A server that three proxies stand in front of."""
    with Servers(variables=[{"TRUSTED_PROXIES": "3"}]) as running:
        yield running.urls[0]


def key_for(*ranges: str) -> str:
    return create_api_key(address_ranges=ranges, by="test")[1]


def statuses(url: str, key: str, **headers: str) -> set[int]:
    """Ask often enough, each time on a connection of its own, that every process of the server answers."""
    return {requests.get(f"{url}/v1/logs", headers={"X-API-Key": key, **headers}, timeout=30).status_code
            for _ in range(12)}  # fmt: skip


def test_a_key_is_accepted_on_every_process_from_inside_its_ranges_alone(servers: Servers):
    for url in servers.urls:
        assert statuses(url, key_for("127.0.0.0/8")) == {200}
        assert statuses(url, key_for("203.0.113.0/24")) == {401}


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Client-IP", "True-Client-IP"])
def test_a_client_does_not_choose_its_address_by_a_header(servers: Servers, header: str):
    key = key_for("203.0.113.0/24")

    assert statuses(servers.urls[0], key, **{header: "203.0.113.7"}) == {401}
    assert ApiKey.objects.exclude(last_used_at=None).filter(address_ranges=["203.0.113.0/24"]).count() == 0


def test_a_refusal_from_elsewhere_is_that_of_an_unknown_key(servers: Servers):
    path = f"{servers.urls[0]}/v1/logs"
    elsewhere = requests.get(path, headers={"X-API-Key": key_for("203.0.113.0/24")}, timeout=30)
    unknown = requests.get(path, headers={"X-API-Key": new_name("key")}, timeout=30)

    assert (elsewhere.status_code, elsewhere.content) == (unknown.status_code, unknown.content)
    assert elsewhere.headers["WWW-Authenticate"] == unknown.headers["WWW-Authenticate"]


def test_behind_proxies_the_client_is_who_the_outermost_saw(behind_proxies: str):
    key = key_for("203.0.113.0/24")

    assert statuses(behind_proxies, key, **{"X-Forwarded-For": "203.0.113.7, 10.0.0.1, 10.0.0.2"}) == {200}
    assert statuses(behind_proxies, key, **{"X-Forwarded-For": "203.0.113.7, 192.0.2.1, 10.0.0.1, 10.0.0.2"}) == {401}
    assert statuses(behind_proxies, key, **{"X-Forwarded-For": "203.0.113.7"}) == {401}


def test_headers_that_a_client_repeats_move_no_proxy_out_of_its_place(behind_proxies: str):
    """Of equal headers one counts, but not of this one: what proxies append must stay where it is."""
    lines = ["10.0.0.2", "203.0.113.7", "192.0.2.1", "10.0.0.1", "10.0.0.2"]
    head = [
        "GET /v1/logs HTTP/1.1", "Host: localhost", f"X-API-Key: {key_for('203.0.113.0/24')}",
        *(f"X-Forwarded-For: {line}" for line in lines),
    ]  # fmt: skip

    with connect(behind_proxies) as connection:
        connection.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
        answer = read_answer(connection)

    assert answer.status == 401

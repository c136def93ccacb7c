"""Behind nginx as deploy/nginx has it, with production's HTTPS: who asks, how, and what a client cannot pretend."""

from collections.abc import Iterator

import pytest
import requests

from policy.key_operations import create_api_key
from tests.growing.staff import Staff
from tests.support.factories import make_agent, make_api_key, make_service, new_name
from tests.support.kills import wait_until
from tests.support.nginx import TlsProxy, nginx
from tests.support.servers import Servers

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(15)]
_ELSEWHERE = "203.0.113.7"
_FORGERIES = [
    {"X-Forwarded-For": _ELSEWHERE},
    {"X-Forwarded-For": f"{_ELSEWHERE}, {_ELSEWHERE}"},
    {"Forwarded": f"for={_ELSEWHERE};proto=https"},
    {"X-Real-Ip": _ELSEWHERE, "X_Forwarded_For": _ELSEWHERE},
]


@pytest.fixture(scope="module")
def proxy(django_db_setup: None, django_db_blocker, tmp_path_factory) -> Iterator[TlsProxy]:
    folder = tmp_path_factory.mktemp("proxy")
    with (
        django_db_blocker.unblock(),
        Servers(variables=[{"HTTPS": "true"}]) as servers,
        nginx(folder, int(servers.urls[0].rpartition(":")[2])) as running,
    ):
        yield running


def make_key(network: str) -> str:
    _, key = create_api_key(address_ranges=[network], by="test")
    return key


def pay(proxy: TlsProxy, key: str, session: requests.Session, **headers: str) -> requests.Response:
    body = {"agentId": make_agent().id, "service": make_service().id, "amount": "1.00", "asset": "USDC", "reason": "A"}
    told = {"Authorization": f"Bearer {key}", "Idempotency-Key": new_name("key"), **headers}
    return session.post(f"{proxy.url}/v1/payments/request", json=body, headers=told, timeout=30)


def test_staff_sign_in_through_the_proxy_with_secure_cookies(proxy):
    with Staff(proxy.url, verify=str(proxy.authority)) as staff:
        assert staff.user.username in staff.get("")
        assert {cookie.name for cookie in staff.cookies} >= {"sessionid", "csrftoken"}
        assert all(cookie.secure for cookie in staff.cookies)


@pytest.mark.parametrize("headers", [{}, {"X-Forwarded-Proto": "https"}], ids=["plain", "forged"])
def test_plain_http_is_sent_to_https_whatever_it_says_of_itself(proxy, headers):
    with proxy.session() as session:
        answer = session.get(f"{proxy.plain_url}/console/", headers=headers, allow_redirects=False, timeout=10)
        secured = session.get(f"{proxy.url}/console/login/", timeout=10)

    assert (answer.status_code, answer.headers["Location"]) == (308, "https://localhost/console/")
    assert secured.headers["Strict-Transport-Security"] == "max-age=31536000"


@pytest.mark.parametrize("forged", _FORGERIES, ids="+".join)
def test_the_address_of_a_client_is_the_one_that_the_proxy_saw(proxy, forged):
    here, elsewhere = make_key("127.0.0.0/8"), make_key(f"{_ELSEWHERE}/32")
    with proxy.session() as session:
        assert pay(proxy, here, session, **forged).status_code == 201
        assert pay(proxy, elsewhere, session, **forged).status_code == 401


def test_a_request_keeps_its_id_and_its_host(proxy):
    with proxy.session() as session:
        answer = session.get(f"{proxy.url}/v1/docs", headers={"X-Request-Id": "order-1234"}, timeout=10)
        stranger = session.get(f"{proxy.url}/v1/docs", headers={"Host": "elsewhere.example"}, timeout=10)

    assert (answer.status_code, answer.headers["X-Request-Id"]) == (200, "order-1234")
    assert stranger.status_code == 404  # nginx's own


def test_a_body_that_is_refused_ends_nothing_but_itself(proxy):
    key = make_api_key()
    with proxy.session() as session:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        for body in (b"x" * 70_000, iter([b"x" * 40_000] * 2)):
            refused = session.post(f"{proxy.url}/v1/payments/request", data=body, headers=headers, timeout=30)
            assert (refused.status_code, refused.json()["error"]["code"]) == (413, "payload_too_large")
            assert pay(proxy, key, session).status_code == 201


def test_the_proxys_log_has_nothing_that_opens_anything(proxy):
    link = f"{proxy.url}/console/login/password/MQ/a-one-time-token/"
    with proxy.session() as session:
        session.get(link, timeout=10)
        session.get(f"{proxy.url}/v1/docs?token=in-a-query", headers={"Referer": link}, timeout=10)
        session.get(f"{proxy.url}/v1/docs/last", timeout=10)

    wait_until(lambda: "/v1/docs/last" in proxy.log.read_text(), "nginx has written")
    assert '"GET /v1/docs" 200' in proxy.log.read_text()
    assert "one-time-token" not in proxy.log.read_text()
    assert "in-a-query" not in proxy.log.read_text()

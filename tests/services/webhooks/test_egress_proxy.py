"""Webhooks through the operator's proxy, Debian's tinyproxy: through it alone, and only to addresses checked here."""

from collections.abc import Iterator

import pytest

from backoffice.alarms.channels import URL, Channel, send
from backoffice.alarms.texts import Line
from foundation.environment.egress_proxy import read_egress_proxy
from services.models import Outcome
from tests.services.webhooks.attempts import attempt
from tests.services.webhooks.receivers import Receiver, refused_port
from tests.support.ports import free_ports
from tests.support.tinyproxy import ADDRESS, FILTERED, Proxy, tinyproxy
from tests.support.tls import Authority, in_front_of

_HOST = "shop.example"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory) -> Iterator[Proxy]:
    with tinyproxy(tmp_path_factory.mktemp("proxy")) as running:
        yield running


@pytest.fixture
def leave_through(settings):
    """Set the proxy that webhooks leave through."""

    def set_proxy(url: str) -> None:
        settings.WEBHOOK_PROXY = read_egress_proxy(url)

    return set_proxy


@pytest.fixture
def behind_proxy(proxy: Proxy, leave_through) -> Proxy:
    leave_through(proxy.url())
    return proxy


def test_an_event_goes_through_the_proxy_which_learns_its_address_alone(behind_proxy, authority):
    before = len(behind_proxy.asked())
    with Receiver(tls=authority.server(_HOST)) as receiver:
        result = attempt(receiver.url("/hook?token=secret", host=_HOST))

        (request,) = receiver.requests
        assert (result.outcome, result.status) == (Outcome.DELIVERED, 200)
        assert (request.peer, request.server_name) == (ADDRESS, _HOST)
        (asked,) = behind_proxy.asked()[before:]
        assert f"CONNECT 127.0.0.1:{receiver.port} HTTP/1.1" in asked
    assert "secret" not in behind_proxy.log.read_text()
    assert _HOST not in asked


def test_the_proxy_itself_may_be_spoken_to_in_tls(proxy, leave_through, authority, tmp_path):
    certified = Authority(tmp_path)
    with in_front_of(proxy.port, certified) as port, Receiver(tls=authority.server(_HOST)) as receiver:
        leave_through(proxy.url(scheme="https", port=port) + f"?ssl_ca_certs={certified.file}")
        assert attempt(receiver.url(host=_HOST)).outcome == Outcome.DELIVERED
        leave_through(proxy.url(scheme="https", port=port))
        result = attempt(receiver.url(host=_HOST))

        assert result.outcome == Outcome.CONNECTION
        assert result.detail.startswith("The egress proxy is away")
        assert [request.peer for request in receiver.requests] == [ADDRESS]


def test_a_certificate_for_another_name_is_refused_behind_the_proxy_too(behind_proxy, authority):
    with Receiver(tls=authority.server("elsewhere.example")) as receiver:
        assert attempt(receiver.url(host=_HOST)).outcome == Outcome.TLS
        assert receiver.requests == []


@pytest.mark.parametrize("address", ["10.0.0.7", "169.254.169.254", "127.0.0.1", "fd00::1"])
@pytest.mark.parametrize("is_name", [True, False], ids=["name", "address"])
def test_an_address_that_is_not_public_is_refused_before_the_proxy_is_asked(behind_proxy, address, is_name):
    async def lookup(host: str, port: int) -> list[str]:
        return [address]

    before = len(behind_proxy.asked())
    literal = f"[{address}]" if ":" in address else address
    result = attempt(f"https://{_HOST if is_name else literal}/hook", lookup=lookup, allow_loopback=False)

    assert result.outcome == Outcome.BLOCKED_ADDRESS
    assert len(behind_proxy.asked()) == before


def test_what_the_proxy_refuses_is_said(proxy, leave_through, authority):
    async def filtered(host: str, port: int) -> list[str]:
        return [FILTERED]

    with Receiver(tls=authority.server(_HOST)) as receiver, refused_port() as port:
        leave_through(f"http://127.0.0.1:{proxy.port}")
        denied = attempt(receiver.url(host=_HOST))
        leave_through(proxy.url())
        blocked = attempt(receiver.url(host=_HOST), lookup=filtered)
        unreachable = attempt(f"https://{_HOST}:{port}/")

        assert {denied.outcome, blocked.outcome, unreachable.outcome} == {Outcome.CONNECTION}
        assert "The egress proxy refused: 407 Proxy Authentication Required" in denied.detail
        assert "The egress proxy refused: 403 Filtered" in blocked.detail
        assert "The egress proxy refused: 500 Unable to connect" in unreachable.detail
        assert receiver.requests == []


def test_without_its_proxy_nothing_is_sent(leave_through, authority):
    (port,) = free_ports(1)
    leave_through(f"http://127.0.0.1:{port}")
    with Receiver(tls=authority.server(_HOST)) as receiver:
        result = attempt(receiver.url(host=_HOST))

        assert (result.outcome, receiver.requests) == (Outcome.CONNECTION, [])
        assert result.detail.startswith("The egress proxy is away")


def test_a_notice_to_a_channel_goes_through_it(behind_proxy, settings):
    settings.WEBHOOKS_ALLOW_PRIVATE = True
    settings.EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
    with Receiver() as receiver:
        settings.NOTICE_URLS = {"operations": receiver.url()}
        send(Channel("operations", URL), [Line("Alarm", "Something happened.", "")])

        assert [request.peer for request in receiver.requests] == [ADDRESS]

"""A Redis that dies is replaced by its Sentinels: payments are answered meanwhile, and all else goes on by itself.

With Debian's Redis and Sentinel, everything in TLS; a web server, a worker of both queues, beat.
"""

from collections.abc import Iterator

import pytest
import requests
from redis.exceptions import ConnectionError as NotConnected

from payments.models import Payment
from services.models import WebhookDelivery
from tests.services.webhooks.couriers import forget_other_tests
from tests.services.webhooks.receivers import Receiver
from tests.support import workers
from tests.support.factories import make_agent, make_api_key, make_service, new_name
from tests.support.kills import wait_until
from tests.support.localnets import EVM
from tests.support.sentinels import PASSWORD, PASSWORD_OF_SENTINELS, Watched, sentinels
from tests.support.servers import Servers

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(30)]


@pytest.fixture(scope="module")
def watched(tmp_path_factory) -> Iterator[Watched]:
    with sentinels(tmp_path_factory.mktemp("redis")) as running:
        yield running


def test_a_failover_of_redis_stops_nothing(watched, tmp_path):
    forget_other_tests()
    EVM.observe()
    logs = [tmp_path / name for name in ("web.log", "worker.log")]
    variables = {"REDIS_URL": watched.url, "WEBHOOKS_ALLOW_PRIVATE": "true"}
    beat = ("--beat", "--schedule", str(tmp_path / "beat"))
    with (
        Receiver() as receiver,
        Servers(count=1, variables=[variables], log=logs[0]) as servers,
        workers.worker(logs[1], *beat, **variables) as worker,
    ):
        agent = make_agent()
        story = _Story(servers.urls[0], agent.id, make_service(webhook_url=receiver.url()).id)
        story.pay_and_be_told()

        watched.kill_master()
        answers = [story.pay() for _ in range(40)]  # more than one quota of the rate limit
        wait_until(lambda: _is_master(watched), "the replica has taken over")
        story.pay_and_be_told()

        assert requests.get(f"{servers.urls[0]}/readyz", timeout=10).json()["checks"]["broker"] == "ok"
        assert len(answers) == len(set(answers))
        with watched.replica() as master:
            master.select(1)
            assert master.keys("rate:*")
    assert worker.returncode == 0
    said = "".join(log.read_text() for log in logs)
    assert PASSWORD not in said
    assert PASSWORD_OF_SENTINELS not in said
    assert "The rate limiter is away" in said


def _is_master(watched: Watched) -> bool:
    try:
        with watched.replica() as replica:
            return bool(replica.info("replication")["role"] == "master")
    except NotConnected:  # who takes over closes what was open
        return False


class _Story:
    """An agent that pays a payee, who is told."""

    def __init__(self, url: str, agent: str, service: str) -> None:
        self._url, self._agent, self._service = url, agent, service
        self._key = make_api_key()

    def pay(self) -> str:
        body = {"agentId": self._agent, "service": self._service, "amount": "0.25", "asset": "USDC", "reason": "A test"}
        headers = {"Authorization": f"Bearer {self._key}", "Idempotency-Key": new_name("key")}
        answer = requests.post(f"{self._url}/v1/payments/request", json=body, headers=headers, timeout=30)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def pay_and_be_told(self) -> None:
        """Pay, and wait until beat has woken a worker that settled it, and one that told the payee so."""
        payment = self.pay()
        wait_until(lambda: Payment.objects.get(pk=payment).status == "settled", "the payment is settled", 180)
        wait_until(lambda: _is_told(payment), "the payee is told", 180)


def _is_told(payment: str) -> bool:
    told = WebhookDelivery.objects.filter(event__type="payment.settled", event__payload__contains=payment)
    return told.filter(state="delivered").exists()

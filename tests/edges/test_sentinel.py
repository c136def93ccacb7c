"""A Redis that dies is replaced by its Sentinels: payments are answered meanwhile, and all else goes on by itself.

With Debian's Redis and Sentinel, everything in TLS; a web server, a worker of both queues, beat.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import requests
from redis.exceptions import ConnectionError as NotConnected

from payments.models import Payment
from services.models import WebhookDelivery
from tests.benchmarks.processor import children_of
from tests.services.webhooks.couriers import forget_other_tests
from tests.services.webhooks.receivers import Receiver
from tests.support.factories import make_agent, make_api_key, make_service, new_name
from tests.support.house import House
from tests.support.kills import wait_until
from tests.support.localnets import EVM
from tests.support.sentinels import PASSWORD, PASSWORD_OF_SENTINELS, Watched, sentinels
from tests.support.workers import BY_HAND, PROCESSES

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(30)]


@pytest.fixture(scope="module")
def watched(tmp_path_factory) -> Iterator[Watched]:
    with sentinels(tmp_path_factory.mktemp("redis")) as running:
        yield running


def test_a_failover_of_redis_stops_nothing(watched, tmp_path):
    forget_other_tests()
    EVM.observe()
    variables = {"REDIS_URL": watched.url, "WEBHOOKS_ALLOW_PRIVATE": "true"}
    with Receiver() as receiver, House(tmp_path) as house:
        house.start("web", **variables)
        house.run("worker", *BY_HAND, "--beat", **variables)
        house.wait_for("web", "worker")
        agent = make_agent()
        payee = make_service(webhook_url=receiver.url())
        # Each has a key, and so a quota, of its own.
        story, other = (_Story(house.url("web"), agent.id, payee.id) for _ in range(2))
        story.pay_and_be_told()

        with all_busy(house.pid("worker"), watched, other):
            watched.kill_master()
        answers = [story.pay() for _ in range(40)]  # more than one quota of the rate limit
        wait_until(lambda: _is_master(watched), "the replica has taken over")
        story.pay_and_be_told()

        assert requests.get(f"{house.url('web')}/readyz", timeout=10).json()["checks"]["broker"] == "ok"
        assert len(answers) == len(set(answers))
        with watched.replica() as master:
            master.select(1)
            assert master.keys("rate:*")
        assert house.end("worker") == 0
    said = "".join(log.read_text() for log in tmp_path.glob("*.log"))
    assert PASSWORD not in said
    assert PASSWORD_OF_SENTINELS not in said
    assert "The rate limiter is away" in said


@contextmanager
def all_busy(worker: int, watched: Watched, story: "_Story") -> Iterator[None]:
    """Hold what the worker's processes do until the block ends; each has a task by then."""
    processes = children_of(worker)
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        # Each approved payment wakes a worker.
        wait_until(lambda: story.pay() and _count_taken(watched) == PROCESSES, "each process has a task")
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def _count_taken(watched: Watched) -> int:
    with watched.replica() as replica:
        replica.select(1)
        return int(replica.zcard("unacked_index"))


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

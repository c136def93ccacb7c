"""Batches of real processes: storms of duplicate keys, and servers that are killed in the middle of a batch."""

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from ledger.models import LogEntry
from payments.models import Payment
from tests.support.factories import make_agent, make_api_key, make_service, new_name
from tests.support.house import server_environment
from tests.support.invariants import check_agent, check_nonces
from tests.support.local_ids import LOCALNET
from tests.support.servers import Servers
from tests.support.storms import Shot, Storm, strike

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(60)]
PATIENCE_S = 60
_WAITING = """
    SELECT count(*) FROM pg_stat_activity
     WHERE wait_event_type = 'Lock' AND %s = ANY (pg_blocking_pids(pid)) AND query LIKE %s
"""


class Payers:
    """Agents that pay one service, and the shots that their clients fire."""

    def __init__(self, count: int, limit: str = "1000") -> None:
        self.agents = [make_agent(daily_limit=limit, weekly_limit=limit) for _ in range(count)]
        self.service = make_service()
        self._key = make_api_key()

    def shots(self, url: str, agent: int, keys: list[str]) -> list[Shot]:
        body = {
            "agentId": self.agents[agent].id, "service": self.service.id, "amount": "1.00", "asset": "USDC",
            "reason": "A storm",
        }  # fmt: skip
        return [Shot(url, self._key, key, body) for key in keys]

    def check(self) -> None:
        for agent in self.agents:
            check_agent(agent.id)
        check_nonces(LOCALNET)


@contextmanager
def locked(lock: str) -> Iterator["psycopg.Connection[Any]"]:
    """Hold a lock in a session of its own."""
    with psycopg.connect(server_environment()["DATABASE_URL"]) as session:
        session.execute(lock.encode())
        yield session
        session.rollback()


def wait_for_a_batch(session: "psycopg.Connection[Any]", statement: str) -> None:
    """Wait until a server waits for the session in the middle of its batch."""
    deadline = time.monotonic() + PATIENCE_S
    with psycopg.connect(server_environment()["DATABASE_URL"], autocommit=True) as watch:
        while watch.execute(_WAITING, [session.info.backend_pid, statement]).fetchone() == (0,):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_storm_of_32_processes_with_duplicate_keys_of_two_agents_decides_each_key_once(servers):
    payers = Payers(2, limit="15")
    keys = [new_name("key") for _ in range(24)]
    shots = [
        shot
        for url, agent in itertools.product(itertools.islice(itertools.cycle(servers.urls), 4), range(2))
        for shot in payers.shots(url, agent, keys)
    ] * 2
    random.Random(7).shuffle(shots)

    answers = strike(shots, processes=32, threads=2)

    assert Counter(answer.status for answer in answers) == {201: 2 * 15 * 8, 422: 2 * 9 * 8}
    told: dict[tuple[str, str], set[str]] = {}
    for shot, answer in zip(shots, answers, strict=True):
        told.setdefault((shot.body["agentId"], shot.idempotency_key), set()).add(answer.text)
    assert all(len(texts) == 1 for texts in told.values())
    assert sum(not answer.is_replay for answer in answers) == len(told) == 48
    assert LogEntry.objects.filter(agent__in=payers.agents).count() == 48
    payers.check()


@pytest.mark.parametrize(
    ("lock", "statement", "is_decided"),
    [
        ("LOCK TABLE ledger_balancemovement IN SHARE MODE", "%payments_record%", False),
        # Foreign keys are checked at commit: it waits there for the payee's row. It then succeeds, and nobody is told.
        ("SELECT FROM services_service WHERE id = '{service}' FOR UPDATE", "COMMIT", True),
    ],
    ids=["recording", "committing"],
)
def test_a_server_that_is_killed_in_mid_batch_loses_and_repeats_nothing(committed, lock, statement, is_decided):
    payers = Payers(6)
    keys = [[new_name("key") for _ in range(4)] for _ in payers.agents]
    with Servers(count=2) as servers:
        first, second = (
            [shot for agent in range(6) for shot in payers.shots(url, agent, keys[agent])] for url in servers.urls
        )
        before = strike(payers.shots(servers.urls[0], 0, keys[0][:1]))
        with locked(lock.format(service=payers.service.id)) as session:
            storm = Storm(first, processes=2, threads=12)
            wait_for_a_batch(session, statement)
            servers.kill("web-1")
        answers = list(storm)
        assert [answer.status for answer in before] == [201]
        assert all(answer.status == 0 or answer.is_replay for answer in answers)
        assert is_decided == (LogEntry.objects.filter(agent__in=payers.agents).count() > 1)

        again = strike(second)

    assert [answer.status for answer in again] == [201] * 24
    assert again[0].text == before[0].text
    assert Payment.objects.filter(agent__in=payers.agents).count() == 24
    payers.check()

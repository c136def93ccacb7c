"""No answered decision is lost when the primary dies under load and its standby takes over.

With real servers: a primary and a standby, copies of the tests' own; a web server over HTTP that knows both addresses.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal

import pytest
import requests

from tests.overspend.answers import Told
from tests.overspend.checks import (
    a_key_has_one_decision,
    an_approval_is_one_payment,
    every_limit_holds,
    no_answer_is_lost,
)
from tests.overspend.evidence import Account, Evidence, Kind, Limits, Problem
from tests.overspend.rows import read_rows
from tests.support.clusters import STANDBY, Cluster, url_of
from tests.support.factories import make_agent, make_api_key, new_name
from tests.support.kills import wait_until
from tests.support.localnets import EVM
from tests.support.servers import Servers
from tests.support.storms import Shot, Storm, strike

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(40)]
_DAY, _WEEK = "15", "100"
_AGENTS = 4
# New connections go to whichever of the two takes writes. A process needs no word of a failover.
_EITHER = "?target_session_attrs=read-write"
_CHECKS = (no_answer_is_lost, a_key_has_one_decision, an_approval_is_one_payment, every_limit_holds)


@dataclass(slots=True)
class Story:
    """A primary, its standby, what agents asked of a web server before them, and what they were told."""

    primary: Cluster
    standby: Cluster
    url: str
    agents: Sequence[str]
    service: str
    api_key: str
    told: list[Told] = field(default_factory=list)

    def shots(self, each: int) -> list[Shot]:
        """Make so many requests of each agent."""
        return [self._shot(agent) for _ in range(each) for agent in self.agents]

    def ask(self, shots: Sequence[Shot]) -> None:
        self.told += [Told(shots[answer.index], answer) for answer in strike([*shots], processes=2, threads=4)]

    def fail_over(self) -> None:
        """Kill the primary with -9, and let the standby take over."""
        self.primary.kill()
        self.standby.promote()

    def problems(self) -> list[Problem]:
        """Compare what clients were told with the rows of the standby."""
        limits = [Limits(Decimal(10), Decimal(_DAY), Decimal(_WEEK))]
        with self.standby.connect() as session:
            entries, payments, _ = read_rows(session, self.agents)
        accounts = [Account(agent, "USDC", limits) for agent in self.agents]
        evidence = Evidence(accounts, self.told, entries, payments)
        return [problem for check in _CHECKS for problem in check(evidence)]

    def _shot(self, agent: str) -> Shot:
        body = {"agentId": agent, "service": self.service, "amount": "1.00", "asset": "USDC", "reason": "Failover"}
        return Shot(self.url, self.api_key, new_name("key"), body)


@contextmanager
def pair() -> Iterator[Story]:
    """Have a primary with a standby that follows it, and a web server before them."""
    agents = [make_agent(daily_limit=_DAY, weekly_limit=_WEEK).id for _ in range(_AGENTS)]
    service, key = EVM.make_service(), make_api_key()
    with ExitStack() as stack:
        primary = Cluster.of_the_tests()
        stack.callback(primary.remove)
        standby = Cluster(primary.socket)
        stack.callback(standby.remove)
        standby.start()
        variables = {"DATABASE_URL": url_of(primary, standby, options=_EITHER)}
        servers = stack.enter_context(Servers(variables=[variables]))
        yield Story(primary, standby, servers.urls[0], agents, service.id, key)


def test_with_synchronous_replication_a_failover_loses_nothing_that_was_answered():
    with pair() as story:
        story.primary.change("synchronous_standby_names", STANDBY)
        _wait_for_standby(story, "sync")
        shots = story.shots(40) * 2

        answers = Storm(shots, processes=2, threads=4)
        for answer in answers:
            story.told.append(Told(shots[answer.index], answer))
            if len(story.told) == len(shots) // 5:
                story.fail_over()
        before = [told for told in story.told if told.is_decided]
        story.ask(shots)

        assert {told.status for told in story.told} == {201, 422, 503}
        assert len(before) >= len(shots) // 5
        assert all(told.is_final for told in story.told[-len(shots) :])
        assert story.problems() == []


def test_nothing_is_answered_that_the_standby_does_not_have():
    with pair() as story:
        story.primary.change("synchronous_standby_names", STANDBY)
        _wait_for_standby(story, "sync")
        (shot, *_) = story.shots(1)

        story.standby.stop()
        with pytest.raises(requests.Timeout):
            requests.post(
                f"{shot.url}/v1/payments/request",
                json=shot.body,
                headers={"Authorization": f"Bearer {shot.api_key}", "Idempotency-Key": shot.idempotency_key},
                timeout=3,
            )
        story.standby.start()
        story.ask([shot])

        assert [told.status for told in story.told] == [201]
        story.fail_over()
        assert story.problems() == []


def test_with_asynchronous_replication_a_failover_loses_what_the_standby_does_not_have():
    """The control: what is lost is noticed."""
    with pair() as story:
        _wait_for_standby(story, "async")
        story.standby.stop()
        story.ask(story.shots(20))

        story.primary.kill()
        story.standby.start()
        story.standby.promote()

        assert Counter(told.status for told in story.told) == {201: 15 * _AGENTS, 422: 5 * _AGENTS}
        assert Counter(kind for kind, _ in story.problems()) == {Kind.LOST: len(story.told)}


def _wait_for_standby(story: Story, state: str) -> None:
    """Wait until the primary counts on the standby in a state of `pg_stat_replication`."""
    find = "SELECT sync_state FROM pg_stat_replication WHERE application_name = %s AND state = 'streaming'"
    wait_until(lambda: story.primary.execute(find, STANDBY) == [(state,)], f"the standby is {state}")

"""Several watchers and staff at once credit each deposit once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from threading import Barrier
from typing import Any

import pytest
from django.db import connection

from chains.port import EscrowSearch
from foundation.kernel.errors import OperationRefused
from ledger.operations import fund_agent
from payments.funding.deposits import credit_deposit
from payments.models import Deposit
from payments.reconciling.escrow_history import search_history
from tests.support.credited_deposits import balance, cursor, problems
from tests.support.deposits import FindOurPayments, make_searched_chain, sighting
from tests.support.factories import make_agent
from tests.support.fake_chain import FakeChain
from tests.support.invariants import check_agent
from tests.support.payment_requests import make_service_on, pay_on


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Do something in as many threads, each with its own connection, from the same moment on."""
    start = Barrier(count)

    def run(number: int) -> Any:
        start.wait()
        try:
            return work(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@dataclass
class MeetingChain(FakeChain):
    """A chain whose watchers all know what is there before any of them credits it."""

    meeting: Barrier | None = None

    def search(self, first_block: int, last_block: int, find_our_payments: FindOurPayments) -> EscrowSearch:
        found = super().search(first_block, last_block, find_our_payments)
        if first_block == 1 and self.meeting:
            self.meeting.wait(timeout=60)
        return found


@pytest.mark.usefixtures("committed")
def test_two_watchers_at_once_credit_once():
    agent = make_agent()
    chain = MeetingChain(make_searched_chain().name, meeting=Barrier(2))
    chain.deposits += [sighting(agent, block_number=number) for number in (1, 2, 99)]

    counts = together(2, lambda _: search_history(chain.name, chain))

    assert (sum(counts), balance(agent), cursor(chain)) == (3, 1015, 100)
    assert problems(agent) == []


@pytest.mark.usefixtures("committed")
def test_staff_at_once_credit_once():
    found, agents = sighting("nobody", "7"), [make_agent() for _ in range(4)]
    chain = make_searched_chain(found)
    search_history(chain.name, chain)
    deposit_id = Deposit.objects.get(tx=found.tx).pk

    def credit(number: int) -> bool:
        try:
            credit_deposit(deposit_id, agent_id=agents[number].id, by="fiona")
        except OperationRefused:
            return False
        return True

    assert together(4, credit).count(True) == 1
    assert sorted(balance(agent) for agent in agents) == [1000, 1000, 1000, 1007]


@pytest.mark.usefixtures("committed")
def test_watchers_payments_and_fundings_of_the_same_agents_do_not_stand_in_each_others_way():
    agents = [make_agent() for _ in range(4)]
    one = make_searched_chain(*(sighting(agent, "1", block_number=n) for n in range(1, 101) for agent in agents))
    other = make_searched_chain(
        *(sighting(agent, "1", block_number=n) for n in range(1, 101) for agent in reversed(agents))
    )
    service = make_service_on(one)

    def work(number: int) -> None:
        if number < 2:
            chain = (one, other)[number]
            while cursor(chain) < 100:  # on a slow machine one run is over before
                search_history(chain.name, chain)
            return
        for turn in range(12):
            pay_on(one, agents[(turn + number) % 4], service, "1")
            fund_agent(agents[(turn + number) % 4].id, amount=Decimal(1), by="test")

    together(5, work)

    assert (cursor(one), cursor(other)) == (100, 100)
    assert [balance(agent) for agent in agents] == [1200] * 4
    for agent in agents:
        check_agent(agent.id)
        assert problems(agent) == []

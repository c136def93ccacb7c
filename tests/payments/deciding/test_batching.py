"""What waits in a process is decided together, in order, and nobody waits for an agent that somebody else holds."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from django.db import connection, transaction

from chains.port import TransactionPlan
from foundation.database import SERVICE_LOCK, lock_name
from foundation.kernel.errors import PolicySignerUnavailable
from payments.deciding.batching import Batcher, Place
from payments.deciding.operations import Approval
from payments.deciding.requests import PaymentRequest
from policy.models import Agent
from policy.parents import lock_agent
from services.models import Service
from tests.support.factories import make_agent, new_name
from tests.support.fake_chain import FakeChain, make_fake_chain
from tests.support.invariants import check_agent, check_nonces
from tests.support.payment_requests import environment_of, make_request, make_service_on
from tests.support.trees import make_child

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(20)]
PATIENCE_S = 60


class CountedBatcher(Batcher):
    """Counts who has come."""

    joined = 0

    def _join(self, place: Place) -> None:
        super()._join(place)
        self.joined += 1

    def is_empty(self) -> bool:
        return not (self._waiting or self._aside or self._is_led)


class Desk:
    """A batcher on a chain whose next preparation can be held, and threads that ask."""

    def __init__(self, threads: ThreadPoolExecutor, most_together: int = 32, gather_s: float = 0) -> None:
        self.chain = make_fake_chain(relayers=4)
        self.agent, self.service = make_agent(), make_service_on(self.chain)
        self.batcher = CountedBatcher(lambda: environment_of(self.chain), most_together, gather_s)
        self._threads = threads
        self._first = make_agent()

    def ask(
        self, agent: Agent | None = None, service: Service | None = None, amount: str = "1.00"
    ) -> "Future[Approval]":
        """Ask in a thread of its own, and return once its request is put down."""
        return self.ask_for(make_request(agent or self.agent, service or self.service, amount, new_name("key")))

    def ask_for(self, request: PaymentRequest) -> "Future[Approval]":
        before = self.batcher.joined
        asked = self._threads.submit(self._ask, request)
        wait_until(lambda: self.batcher.joined > before)
        return asked

    def _ask(self, request: PaymentRequest) -> Approval:
        try:
            return self.batcher.request_payment(request)
        finally:
            connection.close()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the first batch in the middle of being decided."""
        begun, go_on = threading.Event(), threading.Event()
        prepare = self.chain.prepare

        def hold(plan: TransactionPlan, now: datetime) -> Any:
            begun.set()
            assert go_on.wait(PATIENCE_S)
            return prepare(plan, now)

        self.chain.prepare = hold  # type: ignore[method-assign]
        first = self._threads.submit(self._ask, make_request(self._first, self.service))
        assert begun.wait(PATIENCE_S)
        self.chain.prepare = prepare  # type: ignore[method-assign]
        try:
            yield
        finally:
            go_on.set()
        first.result(PATIENCE_S)


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def transactions_of(approvals: list[Approval]) -> list[str]:
    """Tell which database transaction wrote each entry."""
    with connection.cursor() as cursor:
        found = []
        for approval in approvals:
            cursor.execute("SELECT xmin::text FROM ledger_logentry WHERE id = %s", [approval.entry.pk])
            found.append(cursor.fetchone()[0])
    return found


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(48) as pool:
        yield pool


@pytest.fixture
def desk(threads: ThreadPoolExecutor) -> Desk:
    return Desk(threads)


def test_what_comes_while_a_batch_is_decided_is_decided_together_afterwards(desk):
    agents = [make_agent() for _ in range(5)]
    with desk.held():
        asked = [desk.ask(agent) for agent in agents * 2]

    answers = [one.result(PATIENCE_S) for one in asked]

    assert len(set(transactions_of(answers))) == 1
    for agent in agents:
        check_agent(agent.pk)
    check_nonces(desk.chain.name)


def test_no_batch_is_larger_than_the_most(threads):
    desk = Desk(threads, most_together=4)
    with desk.held():
        agents = [make_agent() for _ in range(10)]
        asked = [desk.ask(agent) for agent in agents]

    transactions = transactions_of([one.result(PATIENCE_S) for one in asked])

    assert [transactions.count(one) for one in dict.fromkeys(transactions)] == [4, 4, 2]


def test_with_a_most_of_one_each_is_decided_by_itself(threads):
    desk = Desk(threads, most_together=1)
    with desk.held():
        asked = [desk.ask() for _ in range(5)]

    assert len(set(transactions_of([one.result(PATIENCE_S) for one in asked]))) == 5
    check_agent(desk.agent.pk)


def test_what_is_to_gather_is_decided_together_as_soon_as_enough_wait(threads):
    desk = Desk(threads, most_together=3, gather_s=10 * PATIENCE_S)
    asked = [desk.ask(make_agent()) for _ in range(6)]

    answers = [one.result(PATIENCE_S) for one in asked]

    transactions = transactions_of(answers)
    assert len(set(transactions[:3])) == len(set(transactions[3:])) == 1
    assert transactions[0] != transactions[3]
    assert len({answer.entry.tx for answer in answers}) == 2


def test_what_gathers_is_decided_when_the_first_has_waited_long_enough(threads):
    desk = Desk(threads, gather_s=0.5)
    asked = [desk.ask(make_agent()) for _ in range(2)]

    answers = [one.result(PATIENCE_S) for one in asked]

    assert len({answer.entry.tx for answer in answers}) == 1
    wait_until(desk.batcher.is_empty)


def test_nobody_who_gathers_waits_for_an_agent_that_somebody_else_holds(threads):
    desk = Desk(threads, gather_s=0.05)
    held, other = make_agent(), make_agent()
    with transaction.atomic():
        lock_agent(held.pk)
        waiting = [desk.ask(held), desk.ask(held)]
        desk.ask(other).result(PATIENCE_S)
        assert not any(one.done() for one in waiting)

    for one in waiting:
        one.result(PATIENCE_S)
    wait_until(desk.batcher.is_empty)


def test_requests_of_one_agent_are_decided_in_the_order_in_which_they_came(desk):
    with desk.held():
        asked = [desk.ask() for _ in range(40)]

    answers = [one.result(PATIENCE_S) for one in asked]

    totals = [answer.entry.spent_total for answer in answers]
    assert totals == sorted(totals)
    check_agent(desk.agent.pk)


def test_nobody_waits_for_an_agent_that_somebody_else_holds(desk):
    held, others = make_agent(), [make_agent() for _ in range(3)]
    with transaction.atomic():
        lock_agent(held.pk)
        with desk.held():
            waiting = [desk.ask(held), *(desk.ask(agent) for agent in others), desk.ask(held)]
        for one in waiting[1:4]:
            one.result(PATIENCE_S)
        late = [desk.ask(held) for _ in range(2)]
        desk.ask(others[0]).result(PATIENCE_S)
        assert not any(one.done() for one in (waiting[0], waiting[4], *late))

    answers = [one.result(PATIENCE_S) for one in (waiting[0], waiting[4], *late)]

    assert [answer.entry.spent_total for answer in answers] == [1, 2, 3, 4]
    wait_until(desk.batcher.is_empty)
    check_agent(held.pk)


def test_agents_below_one_root_wait_for_it_together_and_nobody_else_does(desk):
    root, other = make_agent(), make_agent()
    children = [make_child(root) for _ in range(3)]
    with transaction.atomic():
        lock_agent(root.pk)
        waiting = [desk.ask(child) for child in children]
        desk.ask(other).result(PATIENCE_S)  # by now it is known whom they wait for
        late = [desk.ask(child) for child in (*children, root)]
        desk.ask(other).result(PATIENCE_S)
        assert not any(one.done() for one in (*waiting, *late))

    answers = [one.result(PATIENCE_S) for one in (*waiting, *late)]

    assert [answer.entry.spent_total for answer in answers] == [1, 1, 1, 2, 2, 2, 1]
    assert len({answer.entry.tx for answer in answers[3:6]}) == 1
    wait_until(desk.batcher.is_empty)


def test_nobody_waits_for_a_service_that_somebody_else_changes(desk):
    other = make_service_on(desk.chain)
    one, another = make_agent(), make_agent()
    with transaction.atomic():
        lock_name(SERVICE_LOCK, desk.service.pk)
        waiting = desk.ask(one)
        desk.ask(another, other).result(PATIENCE_S)
        assert not waiting.done()

    waiting.result(PATIENCE_S)


def test_who_waits_too_long_for_an_agent_is_refused_and_the_others_go_on(desk):
    held = make_agent()
    with transaction.atomic():
        lock_agent(held.pk)
        asked = [desk.ask(held) for _ in range(3)]
        for one in asked:
            with pytest.raises(PolicySignerUnavailable):
                one.result(PATIENCE_S)

    assert desk.ask(held).result(PATIENCE_S).entry.spent_total == 1
    wait_until(desk.batcher.is_empty)


def test_an_error_that_is_nobody_s_refusal_reaches_who_asked_and_nobody_else(desk):
    broken = FakeChain.prepare

    def fail_for_two(plan: TransactionPlan, now: datetime) -> Any:
        if any(order.amount == 2 for order in plan.orders):
            raise ZeroDivisionError
        return broken(desk.chain, plan, now)

    with desk.held():
        asked = [desk.ask(amount=amount) for amount in ("1.00", "2.00", "1.00")]
        desk.chain.prepare = fail_for_two
    with pytest.raises(ZeroDivisionError):
        asked[1].result(PATIENCE_S)

    assert [asked[0].result(PATIENCE_S).entry.spent_total, asked[2].result(PATIENCE_S).entry.spent_total] == [1, 2]
    wait_until(desk.batcher.is_empty)

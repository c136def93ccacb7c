"""Budgets within budgets under storms: real servers, threads and commits."""

import itertools
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import pytest
from django.db import connection

from foundation.kernel.errors import AgentPaused, BudgetExceeded, ContractError, PolicySignerUnavailable
from ledger.models import LogEntry, Result
from payments.deciding.batching import Batcher
from payments.deciding.operations import Approval
from payments.models import Payment
from policy.models import Agent
from policy.operations import pause_agent
from services.models import Service
from tests.payments.deciding.test_batches_under_fire import locked, wait_for_a_batch
from tests.support.factories import make_agent, make_api_key, make_service, new_name
from tests.support.holds import environment_at
from tests.support.invariants import check_agent
from tests.support.level_checks import check_levels
from tests.support.payment_requests import make_request
from tests.support.scenes import at_once
from tests.support.storms import Shot, Storm, strike
from tests.support.trees import counted_at, make_child, make_path

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(60)]
Done = TypeVar("Done")
WIDE: dict[str, Any] = {"daily_limit": "1000", "weekly_limit": "1000"}
PATIENCE_S = 60


def sound(*agents: Agent) -> None:
    for agent in agents:
        check_agent(agent.pk)
    check_levels([agent.pk for agent in agents])


def outcome_of(act: Callable[[], Done]) -> Done | ContractError:
    """Tell what an act comes to: its result, or the refusal."""
    try:
        return act()
    except ContractError as error:
        return error


def elsewhere(act: Callable[[], Any]) -> "Future[Any]":
    """Act in another thread, with a database connection of its own."""

    def act_and_leave() -> Any:
        try:
            return act()
        finally:
            connection.close()

    threads = ThreadPoolExecutor(1)
    future = threads.submit(act_and_leave)
    threads.shutdown(wait=False)
    return future


def make_batcher() -> Batcher:
    return Batcher(environment_at)


def ask(batcher: Batcher, agent: Agent, service: Service, amount: str = "1.00") -> Approval | ContractError:
    """Ask until it is decided: what could not be is asked for again, under its key."""
    request = make_request(agent, service, amount)
    while isinstance(answer := outcome_of(partial(batcher.request_payment, request)), PolicySignerUnavailable):
        assert answer.details.get("rule") is None, answer.details
    return answer


# --- Siblings ---------------------------------------------------------------------------------------------------------
def test_of_payments_of_siblings_at_once_exactly_as_many_are_approved_as_their_root_allows(servers):
    root, service, key = make_agent(daily_limit="12.34", weekly_limit="1000"), make_service(), make_api_key()
    children = [make_child(root, **WIDE) for _ in range(4)]
    grandchild = make_child(children[0], **WIDE)
    urls = itertools.cycle(servers.urls)
    shots = [
        Shot(next(urls), key, new_name("key"), {
            "agentId": agent.pk, "service": service.id, "amount": "0.37", "asset": "USDC", "reason": "A storm",
        })
        for agent in (root, *children, grandchild) * 16
    ]  # fmt: skip

    answers = strike(shots)

    # 33 times 0.37 is 12.21; one more would be 12.58.
    assert Counter(answer.status for answer in answers) == {201: 33, 422: len(shots) - 33}
    assert {answer.code for answer in answers if answer.status == 422} == {"budget_exceeded"}
    own = Payment.objects.filter(agent=root).count()
    assert len(counted_at(root)) + own == 33
    sound(root, *children, grandchild)


def test_a_batch_of_siblings_their_parents_and_other_trees_spends_just_what_fits():
    batcher, service = make_batcher(), make_service()
    root, middle, leaf = make_path(3, daily_limit="7")
    sibling, stranger = make_child(root, **WIDE), make_agent(daily_limit="5")
    payers = (root, middle, leaf, sibling, stranger) * 6

    answers = at_once([partial(ask, batcher, agent, service) for agent in payers])

    assert {type(answer) for answer in answers} == {Approval, BudgetExceeded}
    assert Payment.objects.filter(agent__in=[root, middle, leaf, sibling]).count() == 7
    assert Payment.objects.filter(agent=stranger).count() == 5
    sound(root, middle, leaf, sibling, stranger)


# --- Whoever is above -------------------------------------------------------------------------------------------------
def test_to_pause_a_root_waits_for_the_payments_of_all_below_and_after_it_none_passes():
    root, _, leaf = make_path(3, daily_limit="1000", weekly_limit="1000")
    batcher, service = make_batcher(), make_service()
    with locked("LOCK TABLE ledger_balancemovement IN SHARE MODE") as session:
        paying = elsewhere(partial(ask, batcher, leaf, service))
        wait_for_a_batch(session, "%payments_record%")
        pausing = elsewhere(partial(pause_agent, root.pk, by="ann"))
        with pytest.raises(TimeoutError):
            pausing.result(timeout=1)

    pausing.result(timeout=PATIENCE_S)

    assert LogEntry.objects.get(agent=leaf).result == Result.APPROVED  # in the log once the pause has returned
    assert isinstance(paying.result(timeout=PATIENCE_S), Approval)
    assert isinstance(ask(batcher, leaf, service), AgentPaused)
    sound(root, leaf)


def test_after_the_pause_of_a_root_none_of_its_children_pays(servers):
    root, service, key = make_agent(**WIDE), make_service(), make_api_key()
    children = [make_child(root, **WIDE) for _ in range(4)]
    urls = itertools.cycle(servers.urls)
    shots = [
        Shot(next(urls), key, new_name("key"), {
            "agentId": agent.pk, "service": service.id, "amount": "0.01", "asset": "USDC", "reason": "A storm",
        })
        for agent in children * 60
    ]  # fmt: skip
    storm = iter(Storm(shots))

    answers = list(itertools.islice(storm, 20))
    pause_agent(root.pk, by="ann")
    newest = LogEntry.objects.filter(agent__in=children).latest("id").id
    answers += storm

    assert not LogEntry.objects.filter(agent__in=children, id__gt=newest, result=Result.APPROVED).exists()
    outcomes = Counter(answer.status for answer in answers)
    assert outcomes[201] == len(counted_at(root)) >= 20
    assert outcomes[201] + outcomes[403] == len(shots)
    assert outcomes[403]
    sound(root, *children)


def test_what_postgresql_ends_as_a_deadlock_is_decided_later_and_nothing_is_lost():
    root, service = make_agent(**WIDE), make_service()
    child, batcher = make_child(root, **WIDE), make_batcher()
    # As nobody of ours locks them: the child first.
    with locked(f"SELECT FROM policy_agent WHERE id = '{child.pk}' FOR NO KEY UPDATE") as session:
        session.execute("SET LOCAL deadlock_timeout = '60s'")  # the payment finds it
        paying = elsewhere(partial(ask, batcher, child, service))
        wait_for_a_batch(session, "%refusing_since%")  # which lock_and_read selects
        session.execute("SELECT FROM policy_agent WHERE id = %s FOR NO KEY UPDATE", [root.pk])

    assert isinstance(paying.result(timeout=PATIENCE_S), Approval)
    assert counted_at(root) == [1]
    sound(root, child)

"""An agent has a number of payments at most that wait for a person: what it asks for then is answered with 429."""

from decimal import Decimal

import pytest

from foundation.api.errors import headers
from foundation.kernel.errors import RateLimited
from ledger.models import Hold, LogEntry, Result
from payments.deciding import new_holds
from payments.deciding.operations import decide_together
from tests.support.factories import decide, make_agent, make_service
from tests.support.holds import asks_above, decline, environment_at
from tests.support.payment_requests import make_request
from tests.support.trees import make_child

pytestmark = [pytest.mark.django_db, pytest.mark.rolled_back]
FEW = "0.01"


@pytest.fixture(autouse=True)
def _two(monkeypatch):
    monkeypatch.setattr(new_holds, "MOST_HELD", 2)


def test_beyond_it_nothing_is_held_nor_logged_and_the_same_request_is_held_once_another_has_ended():
    agent, service = asks_above("0"), make_service()
    first, second = (decide(agent, service, FEW) for _ in range(2))
    refused = make_request(agent, service, FEW)

    (answer,) = decide_together([refused], environment_at(), wait_s=None)

    assert isinstance(answer, RateLimited)
    assert answer.message.startswith("2 payments of this agent wait for a person's approval already")
    assert headers(answer) == {"Retry-After": "60"}
    assert (Hold.objects.filter(agent=agent).count(), LogEntry.objects.filter(agent=agent).count()) == (2, 2)
    decline(first)
    (held,) = decide_together([refused], environment_at(), wait_s=None)
    assert isinstance(held, LogEntry)
    assert held.result == Result.HELD
    assert str(second.payment_id) in Hold.objects.filter(agent=agent, ended_at=None).values_list("pk", flat=True)


def test_what_needs_no_person_is_paid_and_the_same_key_is_answered_as_before():
    agent, service = asks_above("5"), make_service()
    held = decide(agent, service, "6", key="mine")
    decide(agent, service, "6")

    assert decide(agent, service, "5").result == Result.APPROVED
    assert decide(agent, service, "6", key="mine").pk == held.pk


def test_those_of_one_batch_count():
    agent, service = asks_above("0"), make_service()
    requests = [make_request(agent, service, FEW) for _ in range(3)]

    held = decide_together(requests, environment_at(), wait_s=None)

    assert [getattr(one, "result", type(one)) for one in held] == [Result.HELD, Result.HELD, RateLimited]


def test_in_a_tree_each_counts_its_own():
    root, service = make_agent(approval_above=Decimal(0)), make_service()
    one, other = make_child(root), make_child(root)
    for agent in (one, one, other, root, root):
        assert decide(agent, service, FEW).result == Result.HELD

    for agent in (one, root):
        with pytest.raises(RateLimited):
            decide(agent, service, FEW)
    assert decide(other, service, FEW).result == Result.HELD

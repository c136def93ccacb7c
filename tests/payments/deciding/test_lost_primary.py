"""A batch whose session leads to no primary any more is decided once more, over another session."""

from collections.abc import Callable

import psycopg
import pytest
from django.db import connection

from payments.deciding.operations import conclude, decide_together
from tests.support.factories import make_agent
from tests.support.fake_chain import make_fake_chain
from tests.support.house import server_environment
from tests.support.invariants import check_agent
from tests.support.payment_requests import environment_of, make_request, make_service_on

pytestmark = pytest.mark.usefixtures("committed")


def end() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (session,) = cursor.fetchone()
    with psycopg.connect(server_environment()["DATABASE_URL"]) as another:
        another.execute("SELECT pg_terminate_backend(%s, 5000)", [session])


def make_read_only() -> None:
    """Let the session be as one of a standby."""
    connection.cursor().execute("SET default_transaction_read_only = on")


@pytest.mark.parametrize("lose", [end, make_read_only])
def test_it_is_decided_once_more_over_another_session(lose: Callable[[], None]) -> None:
    chain, agent = make_fake_chain(), make_agent()
    service = make_service_on(chain)
    requests = [make_request(agent, service) for _ in range(3)]
    lose()

    outcomes = decide_together(requests, environment_of(chain), wait_s=None)

    approvals = [conclude(request, outcome) for request, outcome in zip(requests, outcomes, strict=True)]
    assert not any(one.is_replay for one in approvals)
    check_agent(agent.id)

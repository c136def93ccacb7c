"""Many payments of many agents at once."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from foundation.kernel.errors import PolicySignerUnavailable
from ledger.models import LogEntry
from payments.models import Payment
from policy.models import Agent
from tests.support.factories import make_agent
from tests.support.invariants import check_agent
from tests.support.scenes import at_once


def storm(pay: Callable[[Agent], Payment], agents: int, each: int) -> list[Payment]:
    """Let so many agents at once ask for so many payments each; returns what was approved."""

    def ask(agent: Agent) -> list[Payment]:
        approved = []
        for _ in range(each):
            with suppress(PolicySignerUnavailable):
                approved.append(pay(agent))
        return approved

    made = [make_agent(daily_limit="1000", weekly_limit="1000") for _ in range(agents)]
    approved = [payment for payments in at_once([partial(ask, agent) for agent in made]) for payment in payments]
    for agent in made:
        check_agent(agent.id)
        entries = LogEntry.objects.filter(agent=agent).values_list("result", "rule")
        assert {rule for result, rule in entries if result == "blocked"} <= {"policy_signer_available"}
        assert len(entries) == each
    return approved

"""What crediting a deposit leaves in the database."""

from typing import Any

from payments.models import DepositCursor
from payments.reconciling.verification import Progress, verify_agent
from policy.models import Agent
from tests.support.fake_chain import FakeChain


def cursor(chain: FakeChain) -> int:
    return DepositCursor.objects.get(chain=chain.name).block_number or 0


def balance(agent: Agent) -> Any:
    return Agent.objects.get(pk=agent.pk).balance


def problems(agent: Agent) -> list[str]:
    return [found.problem for found in verify_agent(agent.id, Progress())]

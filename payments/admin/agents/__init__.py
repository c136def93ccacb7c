"""The console's pages of agents: the list, one agent, its policy, and how to fund it."""

from payments.admin.agents.admin import AgentAdmin
from payments.admin.agents.requested import look_at_policy
from policy.proposals import KIND
from staff.admin.requests import looks

__all__ = ["AgentAdmin"]

looks[KIND] = look_at_policy

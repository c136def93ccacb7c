"""The console's pages of agents: the list, one agent, its policy, and how to fund it."""

from payments.admin.agents.admin import AgentAdmin

__all__ = ["AgentAdmin"]

"""Agents, their policies, API keys, and the switch of the policy signer."""

from policy.models.agents import Agent, AgentStatus
from policy.models.keys import ApiKey, Scope, SignerSwitch
from policy.models.policies import PolicyRevision, PolicyTemplate, ShadowRevision

__all__ = (
    "Agent",
    "AgentStatus",
    "ApiKey",
    "PolicyRevision",
    "PolicyTemplate",
    "Scope",
    "ShadowRevision",
    "SignerSwitch",
)

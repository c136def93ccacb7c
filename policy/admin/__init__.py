"""The console's pages of API keys and the policy signer's switch. The page of agents is in `payments.admin.agents`."""

from policy.admin import keys, signer

__all__ = ["keys", "signer"]

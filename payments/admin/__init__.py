"""The console's pages of agents, of payments and of the chains they are made on. Importing them registers them."""

from payments.admin import agents, chains, funding, leaving, paying, reconciliation

__all__ = ["agents", "chains", "funding", "leaving", "paying", "reconciliation"]

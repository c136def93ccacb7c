"""The console's pages of agents, of payments and of the chains they are made on. Importing them registers them."""

from payments.admin import agents, funding, leaving, payments, reconciliation, relayers

__all__ = ["agents", "funding", "leaving", "payments", "reconciliation", "relayers"]

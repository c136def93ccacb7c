"""The console's pages of payments and of the chains they are made on. Importing them registers them."""

from payments.admin import chains, funding, paying, reconciliation

__all__ = ["chains", "funding", "paying", "reconciliation"]

"""The console's pages of agents, payments, escrows and chains. Django's autodiscovery imports them to register them."""

from payments.admin import (
    agents,
    deposits,
    holds,
    outflows,
    payments,
    reconciliation,
    relayers,
    transactions,
    withdrawals,
)

__all__ = [
    "agents",
    "deposits",
    "holds",
    "outflows",
    "payments",
    "reconciliation",
    "relayers",
    "transactions",
    "withdrawals",
]

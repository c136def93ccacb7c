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
from payments.admin.hold_requested import look_at_hold
from payments.holding.proposals import APPROVE
from staff.admin.requests import looks

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

looks[APPROVE] = look_at_hold

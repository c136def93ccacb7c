"""What was bought, the transactions that pay for it, who submits them, what came in, and what the watchers saw."""

from payments.models.funding import Deposit, DepositCursor, DepositState, Outflow, Withdrawal
from payments.models.gas import AgentGas
from payments.models.payments import Payment
from payments.models.reconciliation import Reconciliation, Verdict
from payments.models.relayers import ChainState, Installation, Lease, PayeeState, Relayer
from payments.models.settlements import Leg, Settlement, Transition, final_legs_of

__all__ = [
    "AgentGas",
    "ChainState",
    "Deposit",
    "DepositCursor",
    "DepositState",
    "Installation",
    "Lease",
    "Leg",
    "Outflow",
    "PayeeState",
    "Payment",
    "Reconciliation",
    "Relayer",
    "Settlement",
    "Transition",
    "Verdict",
    "Withdrawal",
    "final_legs_of",
]

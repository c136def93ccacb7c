"""A client of Allowance: pre-funded, policy-checked budgets for software agents that pay."""

from allowance_client import errors
from allowance_client.client import Allowance, AsyncAllowance
from allowance_client.models import Budget, LogEntry, Me, Service
from allowance_client.payment_models import Evaluation, Fee, Payment, PaymentState, Proof, RuleResult, Transaction
from allowance_client.requests import new_idempotency_key

__all__ = [
    "Allowance",
    "AsyncAllowance",
    "Budget",
    "Evaluation",
    "Fee",
    "LogEntry",
    "Me",
    "Payment",
    "PaymentState",
    "Proof",
    "RuleResult",
    "Service",
    "Transaction",
    "errors",
    "new_idempotency_key",
]

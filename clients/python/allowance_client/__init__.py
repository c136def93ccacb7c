"""A client of Allowance: pre-funded, policy-checked budgets for software agents that pay."""

from allowance_client import errors
from allowance_client.client import Allowance, AsyncAllowance
from allowance_client.demands import DemandedPayment
from allowance_client.evaluations import Evaluation, Fee, RuleResult
from allowance_client.levels import BudgetLevel, Level
from allowance_client.limits import PayeeLimits
from allowance_client.models import Budget, LogEntry, Me, Service
from allowance_client.paid_http import AsyncPayingTransport, PayingTransport
from allowance_client.payment_models import Payment, PaymentState, Proof, Transaction
from allowance_client.proofs import PaymentClaims, verify_proof
from allowance_client.receipts import verify_receipt, verify_receipts
from allowance_client.requests import new_idempotency_key
from allowance_client.webhooks import WebhookEvent, verify_webhook

__all__ = [
    "Allowance",
    "AsyncAllowance",
    "AsyncPayingTransport",
    "Budget",
    "BudgetLevel",
    "DemandedPayment",
    "Evaluation",
    "Fee",
    "Level",
    "LogEntry",
    "Me",
    "PayeeLimits",
    "PayingTransport",
    "Payment",
    "PaymentClaims",
    "PaymentState",
    "Proof",
    "RuleResult",
    "Service",
    "Transaction",
    "WebhookEvent",
    "errors",
    "new_idempotency_key",
    "verify_proof",
    "verify_receipt",
    "verify_receipts",
    "verify_webhook",
]

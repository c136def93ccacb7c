"""What can go wrong: the errors of the API, one exception class per code, and those of the modules imported here.

Source: docs/contract.md, "Error codes".
"""

from datetime import datetime
from decimal import Decimal

from allowance_client.approvals import ApprovalDeclined, ApprovalPending
from allowance_client.failures import (
    AgentRequired,
    AllowanceError,
    ClientError,
    NoAnswer,
    PaymentFailed,
    ProofInvalid,
    ReceiptInvalid,
    Refusal,
    SettlementTimeout,
    UnexpectedAnswer,
    VerificationError,
    WebhookInvalid,
)

__all__ = [
    "AgentNotFound",
    "AgentPaused",
    "AgentRequired",
    "AllowanceError",
    "ApprovalDeclined",
    "ApprovalPending",
    "BudgetExceeded",
    "ClientError",
    "IdempotencyConflict",
    "IdempotencyKeyRequired",
    "InsufficientScope",
    "InternalError",
    "InvalidApiKey",
    "InvalidRequest",
    "LogEntryNotFound",
    "MethodNotAllowed",
    "NoAnswer",
    "NotFound",
    "OutsideAllowedTime",
    "PayloadTooLarge",
    "PaymentFailed",
    "PaymentNotFound",
    "PolicySignerUnavailable",
    "ProofInvalid",
    "RateLimited",
    "ReceiptInvalid",
    "Refusal",
    "ServiceNotApproved",
    "ServiceNotFound",
    "ServiceNotPayable",
    "SettlementTimeout",
    "UnexpectedAnswer",
    "UnsupportedMediaType",
    "VerificationError",
    "WebhookInvalid",
]


class InvalidRequest(AllowanceError):
    """The request is malformed, or the asset or the amount does not fit. `fields`: pairs of parameter and message."""

    code = "invalid_request"

    def __str__(self) -> str:
        return " ".join([super().__str__(), *(f"{name}: {problem}" for name, problem in self.fields)])

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        return tuple((one.text("param"), one.text("message")) for one in self._members.optional_objects("fields"))


class IdempotencyKeyRequired(AllowanceError):
    code = "idempotency_key_required"


class InvalidApiKey(AllowanceError):
    code = "invalid_api_key"


class InsufficientScope(AllowanceError):
    code = "insufficient_scope"


class AgentPaused(AllowanceError):
    code = "agent_paused"


class ServiceNotApproved(AllowanceError):
    code = "service_not_approved"


class ServiceNotPayable(AllowanceError):
    """It cannot be paid so until somebody changes something. `limit`: the least that could be; None: nothing could."""

    code = "service_not_payable"

    @property
    def limit(self) -> Decimal | None:
        return self._members.optional_amount("limit")


class OutsideAllowedTime(AllowanceError):
    """The agent may not pay this at this time, by its hours, its dates, or because the payee is too new."""

    code = "outside_allowed_time"

    @property
    def allowed_at(self) -> datetime | None:
        """The moment at which the same payment would be let pass; None if waiting does not help."""
        return self._members.optional_instant("allowedAt")


class AgentNotFound(AllowanceError):
    code = "agent_not_found"


class PaymentNotFound(AllowanceError):
    code = "payment_not_found"


class NotFound(AllowanceError):
    code = "not_found"


class ServiceNotFound(NotFound):  # servers of earlier releases say `NotFound`
    code = "service_not_found"


class LogEntryNotFound(NotFound):
    code = "log_entry_not_found"


class MethodNotAllowed(AllowanceError):
    code = "method_not_allowed"


class IdempotencyConflict(AllowanceError):
    """The key was used with another body: one of the two is a mistake. Nothing was paid by this request."""

    code = "idempotency_conflict"


class PayloadTooLarge(AllowanceError):
    code = "payload_too_large"


class UnsupportedMediaType(AllowanceError):
    code = "unsupported_media_type"


class BudgetExceeded(AllowanceError):
    """A limit or the balance would be exceeded. Each figure is None where the rule has none.

    Of a limit of the number of payments, they are numbers of payments.
    """

    code = "budget_exceeded"

    @property
    def limit(self) -> Decimal | None:
        return self._members.optional_amount("limit")

    @property
    def spent(self) -> Decimal | None:
        return self._members.optional_amount("spent")

    @property
    def requested(self) -> Decimal | None:
        return self._members.optional_amount("requested")

    @property
    def remaining(self) -> Decimal | None:
        return self._members.optional_amount("remaining")

    @property
    def allowed_at(self) -> datetime | None:
        """The moment at which the same payment would fit all limits; None if waiting does not help."""
        return self._members.optional_instant("allowedAt")


class RateLimited(AllowanceError):
    code = "rate_limited"


class InternalError(AllowanceError):
    code = "internal_error"


class PolicySignerUnavailable(AllowanceError):
    """The payment cannot be evaluated, co-signed or prepared now; nothing moved."""

    code = "policy_signer_unavailable"

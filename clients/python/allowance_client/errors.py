"""What can go wrong, one exception class per error code of the contract.

Source: docs/contract.md, "Error codes".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from allowance_client.members import Members

if TYPE_CHECKING:
    from allowance_client.payment_models import PaymentState

Retry = Literal["same_key", "new_key"]


class ClientError(Exception):
    """Base of all that this client raises of its own.

    `idempotency_key` is the key of the payment request that ended so; None: it was no payment request.
    """

    idempotency_key: str | None = None


class NoAnswer(ClientError):
    """No answer came that could be read. Nothing is known: the request may have been carried out, or not.

    A payment is asked again safely with the same `idempotency_key`, and only with that: another key may pay twice.
    """


class UnexpectedAnswer(ClientError):
    """The answer is none that this API gives, such as a redirect or a proxy's own page. It is not repeated."""


class AgentRequired(ClientError):
    """The key is bound to no agent, and none was named."""


class PaymentFailed(ClientError):
    """It is proven that the payment can never land; its amount is the agent's again. `payment` is its last state."""

    def __init__(self, payment: "PaymentState") -> None:
        super().__init__(payment)
        self.payment = payment

    def __str__(self) -> str:
        return f"{self.payment.id} failed: {self.payment.failure_reason or 'no reason is given'}"


class SettlementTimeout(ClientError):
    """The payment is decided, but not final in the time given. It may still settle: do not pay again."""

    def __init__(self, payment: "PaymentState") -> None:
        super().__init__(payment)
        self.payment = payment

    def __str__(self) -> str:
        return f"{self.payment.id} is still {self.payment.status}; it may settle later"


class VerificationError(ClientError):
    """Base of what is raised by the functions that verify; says what is wrong first."""


class ReceiptInvalid(VerificationError):
    """The receipt, or the chain of receipts, is not what the installation sealed."""


class WebhookInvalid(VerificationError):
    """The webhook is not genuine, not fresh, or not for this service."""


class ProofInvalid(VerificationError):
    """The proof of payment is not genuine, not for this service, or of a payment that is not settled."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error as it was answered: the members that every code has. `raw` is `error`, whole."""

    code: str
    message: str
    status: int
    retry: Retry | None = None
    docs: str | None = None
    request_id: str | None = None
    rule: str | None = None
    log_id: str | None = None
    retry_after_s: float | None = None
    is_replay: bool = False
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)


class AllowanceError(ClientError):
    """An error of the API. A code that this client does not know is raised as this class itself.

    `retry` says with which idempotency key to go on: `"same_key"`: nothing was stored. `"new_key"`: this key gets this
    answer for ever; once the reason is gone, ask with another one. None: asking again does not help.
    """

    code: str = ""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal
        self.code = refusal.code
        self.message = refusal.message
        self.status = refusal.status
        self.retry = refusal.retry
        self.docs = refusal.docs
        self.request_id = refusal.request_id
        self.rule = refusal.rule
        self.log_id = refusal.log_id
        self.retry_after_s = refusal.retry_after_s
        self.is_replay = refusal.is_replay

    def __str__(self) -> str:
        return f"{self.status} {self.code}: {self.message}"

    @property
    def policy_revision(self) -> str | None:
        """The policy revision that refused; None where no policy did."""
        return self._members.optional_text("policyRevision")

    @property
    def _members(self) -> Members:
        return Members(self.refusal.raw)


class InvalidRequest(AllowanceError):
    """The request is malformed, or the asset or the amount does not fit. `fields`: pairs of parameter and message."""

    code = "invalid_request"

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


class AgentNotFound(AllowanceError):
    code = "agent_not_found"


class PaymentNotFound(AllowanceError):
    code = "payment_not_found"


class NotFound(AllowanceError):
    code = "not_found"


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
    """A limit or the balance would be exceeded. Each figure is None where the rule has none."""

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
        """The moment at which the same payment would fit the windows; None if waiting does not help."""
        return self._members.optional_instant("allowedAt")


class RateLimited(AllowanceError):
    code = "rate_limited"


class InternalError(AllowanceError):
    code = "internal_error"


class PolicySignerUnavailable(AllowanceError):
    """The payment cannot be evaluated, co-signed or prepared now; nothing moved."""

    code = "policy_signer_unavailable"

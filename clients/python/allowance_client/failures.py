"""What can go wrong, but for the single codes: errors in general, lost answers, failed payments, false signatures."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from allowance_client.levels import Level
from allowance_client.members import Members
from allowance_client.payment_models import PaymentState

Retry = Literal["same_key", "new_key"]


class ClientError(Exception):
    """Base of all that this client raises of its own.

    `idempotency_key` is that of the payment request that ended so; None: none was sent, so nothing was paid.
    `was_unanswered`: an attempt at the same request was not answered, so it may have been carried out, whatever a later
    attempt was answered.
    """

    idempotency_key: str | None = None
    was_unanswered: bool = False


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

    def __init__(self, payment: PaymentState) -> None:
        super().__init__(payment)
        self.payment = payment

    def __str__(self) -> str:
        return f"{self.payment.id} failed: {self.payment.failure_reason or 'no reason is given'}"


class SettlementTimeout(ClientError):
    """The payment is decided, but not final in the time given. It may still settle: do not pay again."""

    def __init__(self, payment: PaymentState) -> None:
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
        """The policy revision of the agent at the refusal; None where no policy refused."""
        return self._members.optional_text("policyRevision")

    @property
    def level(self) -> Level | None:
        """The agent above the one that pays whose limit or status refused; None: it is the agent's own."""
        return Level.read(self._members)

    @property
    def _members(self) -> Members:
        return Members(self.refusal.raw)

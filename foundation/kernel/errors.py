"""One exception class per error code of the public contract.

Each has what the envelope needs and nothing of HTTP: the one code→status table is in `foundation.api.errors`.
Source: docs/interface-specification.md, "Errors"; docs/contract.md, "Error codes".
"""

from typing import Any, ClassVar, Literal

# With which Idempotency-Key to go on. Source: docs/contract.md, "Error codes".
#     same_key: nothing was stored; the same request may be sent again.
#     new_key: the key is used up; it gets this answer for ever.
#     None: nothing was stored; the same request gets the same answer until somebody changes something.
Retry = Literal["same_key", "new_key"] | None
# When to try again where an error does not say it. For as long the same 503 to a payment request is not logged again.
DEFAULT_RETRY_AFTER_S = 5


class ContractError(Exception):
    """Base of every error a client can be answered with.

    `details` become members of `error` after `code`, `message`, `retry` and `docs`; `replayed` says that the
    refusal is an earlier one, given again; `retry_after_s` becomes `Retry-After`.
    """

    code: ClassVar[str]
    default_message: ClassVar[str]
    retry: Retry = None

    def __init__(
        self,
        message: str | None = None,
        *,
        replayed: bool = False,
        retry_after_s: int | None = None,
        **details: Any,
    ) -> None:
        self.message = message or self.default_message
        self.details = details
        self.replayed = replayed
        self.retry_after_s = retry_after_s
        super().__init__(self.message)


class InvalidApiKey(ContractError):
    code = "invalid_api_key"
    default_message = "A valid API key is required."


class InsufficientScope(ContractError):
    code = "insufficient_scope"
    default_message = "This API key does not permit this request."


class AgentPaused(ContractError):
    code = "agent_paused"
    default_message = "The agent is paused: all its payments fail closed."
    retry: Retry = "new_key"


class ServiceNotApproved(ContractError):
    code = "service_not_approved"
    default_message = "The service is not approved for this agent."
    retry: Retry = "new_key"


class ServiceNotPayable(ContractError):
    code = "service_not_payable"
    default_message = "This service cannot be paid so until somebody changes something."
    retry: Retry = "new_key"


class OutsideAllowedTime(ContractError):
    code = "outside_allowed_time"
    default_message = "The agent's policy does not allow this payment at this time."
    retry: Retry = "new_key"


class ApprovalDeclined(ContractError):
    code = "approval_declined"
    default_message = "A person had to approve this payment, and did not."
    retry: Retry = "new_key"


class IdempotencyConflict(ContractError):
    code = "idempotency_conflict"
    # None: the first payload may have been paid with this key. To take another one at once would pay it twice.
    default_message = "This Idempotency-Key was used before with a different payload."


class BudgetExceeded(ContractError):
    code = "budget_exceeded"
    default_message = "The payment would exceed the agent's budget."
    retry: Retry = "new_key"


class PolicySignerUnavailable(ContractError):
    code = "policy_signer_unavailable"
    default_message = "This cannot be evaluated or co-signed now. Try again later, with the same Idempotency-Key."
    retry: Retry = "same_key"


class InvalidRequest(ContractError):
    """A malformed request. `fields` is a list of `{"param", "message"}`, one per fault found.

    One that a `rule` of the policy refused is in the log, and its key is used up.
    """

    code = "invalid_request"
    default_message = "The request is not valid."

    def __init__(self, message: str | None = None, **options: Any) -> None:
        super().__init__(message, **options)
        if "rule" in self.details:
            self.retry = "new_key"

    @classmethod
    def of(cls, param: str, message: str) -> "InvalidRequest":
        """Make the error for one faulty parameter."""
        return cls(fields=[{"param": param, "message": message}])


class IdempotencyKeyRequired(ContractError):
    code = "idempotency_key_required"
    default_message = "Send an Idempotency-Key header with every payment request."


class AgentNotFound(ContractError):
    code = "agent_not_found"
    default_message = "There is no such agent."


class PaymentNotFound(ContractError):
    code = "payment_not_found"
    default_message = "There is no such payment."


class ServiceNotFound(ContractError):
    code = "service_not_found"
    default_message = "There is no such service, or this API key may not read it."


class LogEntryNotFound(ContractError):
    code = "log_entry_not_found"
    default_message = "There is no such log entry."


class NotFound(ContractError):
    code = "not_found"
    default_message = "There is nothing at this address."


class MethodNotAllowed(ContractError):
    code = "method_not_allowed"
    default_message = "This address does not answer to this method."


class PayloadTooLarge(ContractError):
    code = "payload_too_large"
    default_message = "The request body is larger than 64 KiB."


class UnsupportedMediaType(ContractError):
    code = "unsupported_media_type"
    default_message = "Send the body as application/json."


class RateLimited(ContractError):
    """Too many in a minute. `counted` names what: requests with a key, or refusals of an agent.

    None: it is no number of a minute, but of what an agent has open.
    """

    code = "rate_limited"
    default_message = "Too many requests with this API key."
    retry: Retry = "same_key"

    def __init__(self, message: str | None = None, *, retry_after_s: int, counted: str | None = "key") -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.counted = counted


class InternalError(ContractError):
    code = "internal_error"
    default_message = "Something went wrong on our side. Try again, with the same Idempotency-Key."
    retry: Retry = "same_key"


class OperationRefused(Exception):
    """Raise when staff ask for a change that the present state does not admit; says why in a sentence."""

"""How it is told that a person has to approve a payment, and that they did not.

Source: docs/contract.md, "A person to ask".
"""

from allowance_client.failures import AllowanceError, ClientError, Refusal
from allowance_client.payment_models import Payment, PaymentState


class ApprovalPending(ClientError):
    """A person has to approve the payment, and has not in the time given. It may still be paid: do not pay again.

    Wait on with `wait_until_decided`, or ask again with the same idempotency key, and only with that. `payment` is what
    is known of it.
    """

    def __init__(self, payment: Payment | PaymentState) -> None:
        super().__init__(payment)
        self.payment = payment

    def __str__(self) -> str:
        return f"{self.payment.id} waits for a person's approval until {self.payment.approval_expires_at}"


class ApprovalDeclined(AllowanceError):
    """A person had to approve the payment, and did not: nothing was paid. Do not ask for it again.

    `payment`: its last state, where that was read; else None.
    """

    code = "approval_declined"
    payment: PaymentState | None = None

    @classmethod
    def of(cls, payment: PaymentState) -> "ApprovalDeclined":
        """Make the refusal of a payment whose state says that it was declined, or has expired."""
        message = payment.decline_reason or "A person had to approve this payment, and did not."
        error = cls(Refusal(cls.code, message, 403, retry="new_key", log_id=payment.log_id))
        error.payment = payment
        return error

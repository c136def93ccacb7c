"""What comes of an intent: it is paid, or was; a person is asked, or has declined; or it is refused still."""

from dataclasses import dataclass

from allowance_client import Evaluation, Payment, PaymentState


@dataclass(frozen=True, slots=True)
class Paid:
    """The intent is paid, by this call or by another one for the same intent."""

    payment: Payment | PaymentState
    header: str | None = None  # for the payee that takes the money itself (x402)


@dataclass(frozen=True, slots=True)
class AlreadyPaid:
    """Nothing was paid: a payment of the same service and amount is there.

    `is_misnamed`: `after_payment` was given, and names another one. `payment` is None: there is none it could name.
    """

    payment: PaymentState | None
    is_misnamed: bool = False
    header: str | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing is paid yet: a person has to approve the payment, by this call or by another one for the same intent."""

    payment: Payment | PaymentState


@dataclass(frozen=True, slots=True)
class Declined:
    """Nothing was paid: a person had to approve the payment lately, and did not. Nobody is asked again."""

    payment: PaymentState


@dataclass(frozen=True, slots=True)
class StillRefused:
    """Nothing was paid: the intent was refused before, and would be refused now. Nothing is logged."""

    evaluation: Evaluation


class TooManyAttempts(Exception):
    """The intent was refused, or its payments failed, too often to go on."""


Outcome = Paid | AlreadyPaid | Waiting | Declined | StillRefused


def found(payment: PaymentState) -> AlreadyPaid | Waiting | Declined:
    """Tell what a payment of the same intent means that somebody else has requested."""
    if payment.is_pending:
        return Waiting(payment)
    return Declined(payment) if payment.is_declined else AlreadyPaid(payment)

"""`manage.py decline_payment PAYMENT --reason R`: see `change payment.decline`."""

from payments.holding.commands import OfHold


class Command(OfHold):
    help = (
        "Decline a payment that waits for a person: nothing is paid, and its amount counts in no balance and "
        "in no window any more. The agent gets the reason. Prints how it stands."
    )
    kind = "payment.decline"

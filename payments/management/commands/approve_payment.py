"""`manage.py approve_payment PAYMENT --reason R`: see `change payment.approve`."""

from payments.holding.commands import OfHold


class Command(OfHold):
    help = (
        "Approve a payment that waits for a person: it is judged again by the policy and the facts of the "
        "moment, and signed within a second. Prints how it stands."
    )
    kind = "payment.approve"

"""What a model shall do where a person has to approve a payment. See `advice.py`, too."""

TELL = "Tell the person you work for"
_ASK_NO_OTHER_WAY = (
    "do not ask for the same thing again in other words, in another or in smaller amounts, or through another payee:"
    " that is noticed, and helps nobody."
)
WAITING = (
    "Nothing is paid yet: a person has to approve `payment`, and was asked. Do not treat it as paid. Wait: call"
    " get_payment with its id and wait_s=30, again as long as its `status` is pending_approval; people may need hours,"
    " until `approval_expires_at`. Go on with other work meanwhile, if there is any. The same call of request_payment"
    f" answers the same, and pays nothing; {_ASK_NO_OTHER_WAY}"
)
WAITING_FOR_PAYEE = (
    f"{WAITING} As soon as get_payment says that it is approved, call request_payment again with exactly the same"
    " arguments: it then has the `payment_signature` for the payee, which holds for a short time only, and pays nothing"
    " more."
)
NOT_APPROVED = (
    "Nothing was paid: a person was asked to approve this payment, and it was not approved; `message` says why. Do not"
    f" call again, and {_ASK_NO_OTHER_WAY} {TELL} what `message` says, or do without it."
)
WOULD_BE_HELD = (
    "Nothing was paid, and nobody was asked. request_payment with the same service and amount would not be paid at"
    " once: a person would have to approve it first, and would be asked. Request it only if it is really needed, and"
    " in one payment."
)


def declined(payment_id: str) -> str:
    """Say what to do after a person was asked lately, and has not approved it."""
    return (
        f"{NOT_APPROVED} Nobody is asked again for the same service and amount within 24 hours. Only if the person you"
        f" work for tells you to have it asked for once more, call again with after_payment={payment_id}."
    )

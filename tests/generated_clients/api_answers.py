"""What the API would answer, for clients that are given it without a server."""

from foundation.api.errors import STATUS, envelope, headers
from payments.api.examples import approve
from payments.deciding.answers import answer

LOST = None


def answer_of(status, body, **headers):
    return {"status": status, "headers": {"Content-Type": "application/json", **headers}, "body": body}


def refusal(error, retry_after_s=None):
    """Answer as the API does."""
    waits = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    return answer_of(STATUS[type(error)], envelope(error), **{**headers(error), **waits})


PAID = answer_of(201, answer(approve()))

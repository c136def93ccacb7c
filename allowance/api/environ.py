"""What the front and Django tell each other about a request, in its WSGI environment, which Django calls `META`."""

from typing import Any

from allowance.kernel.errors import RateLimited

# From the front: the variables of headers that came more than once, with different values. Absent if there is none.
REPEATED = "allowance.repeated"
# From the front: the request stands in a line of strangers, and goes to the caller's if it has one. Absent otherwise.
IS_STRANGER = "allowance.is_stranger"
# From Django: who asks, once that is certain; "" if what was presented does not hold.
CALLER = "allowance.caller"


def recognise(meta: dict[str, Any], caller: str) -> None:
    """Tell the front who asks; called before anything is done for them.

    Raises:
        RateLimited: this is news to the front, which does not send that answer, but asks again in the caller's turn.
    """
    meta[CALLER] = caller
    if IS_STRANGER in meta:
        raise RateLimited(retry_after_s=1)


def disown(meta: dict[str, Any]) -> None:
    """Tell the front that what was presented does not hold, or not any more."""
    meta[CALLER] = ""

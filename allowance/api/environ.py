"""What the front and Django tell each other about a request, in its WSGI environment, which Django calls `META`."""

from typing import Any

from allowance.kernel.errors import RateLimited

# From the front: the variables of headers that came more than once, with different values. Absent if there is none.
REPEATED = "allowance.repeated"
# From the front: the request stands in a line of strangers. Absent if it does not.
IS_STRANGER = "allowance.is_stranger"
# From Django: who asks, once that is certain.
CALLER = "allowance.caller"


def recognise(meta: dict[str, Any], caller: str) -> None:
    """Tell the front who asks; called before anything is done for them.

    Raises:
        RateLimited: this is news to the front, which does not send that answer, but asks again in the caller's turn.
    """
    meta[CALLER] = caller
    if IS_STRANGER in meta:
        raise RateLimited(retry_after_s=1)

"""Variables that the front and Django exchange in a request's WSGI environment, which Django calls `META`."""

from typing import Any

# From the front: the variables of headers that were sent more than once, with different values. Absent if none was.
REPEATED = "allowance.repeated"
# From the front: the request is in a queue of unknown callers, and moves to its caller's once that is known. Or absent.
IS_UNKNOWN_CALLER = "allowance.is_unknown_caller"
# From Django: the caller, once the credential was verified; "" if it is not valid.
CALLER = "allowance.caller"
# From Django: the ids of what the request was about, for its line in the log.
WORKED_ON = "allowance.worked_on"
# From the front: when the request had arrived, in seconds since 1970.
ARRIVED_AT = "allowance.arrived_at"


class CallerIsKnown(BaseException):
    """Nothing is done for a caller from a queue of unknown ones: the front asks again, from the caller's own queue.

    It is no `Exception`: no handler makes an answer of it, for nobody gets one.
    """


def recognise(meta: dict[str, Any], caller: str) -> None:
    """Name the caller to the front, before anything is done for them.

    Raises:
        CallerIsKnown: the front did not know the caller.
    """
    meta[CALLER] = caller
    if IS_UNKNOWN_CALLER in meta:
        raise CallerIsKnown


def forget_caller(meta: dict[str, Any]) -> None:
    """Tell the front that the credential is not valid, or not any more."""
    meta[CALLER] = ""

"""Variables that the front and Django exchange in a request's WSGI environment, which Django calls `META`."""

from typing import Any

# From the front: the variables of headers that were sent more than once, with different values. Absent if none was.
REPEATED = "allowance.repeated"
# From Django: the caller, once the credential was verified; "" if it is not valid.
CALLER = "allowance.caller"
# From Django: the ids of what the request was about, for its line in the log.
WORKED_ON = "allowance.worked_on"
# From the front: when the request had arrived, in seconds since 1970.
ARRIVED_AT = "allowance.arrived_at"


def recognise(meta: dict[str, Any], caller: str) -> None:
    """Name the caller to the front."""
    meta[CALLER] = caller


def forget_caller(meta: dict[str, Any]) -> None:
    """Tell the front that the credential is not valid, or not any more."""
    meta[CALLER] = ""

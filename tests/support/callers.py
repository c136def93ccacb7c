"""Who a key stands for, as a request from somewhere finds out."""

from foundation.kernel.errors import InvalidApiKey
from policy.api_keys import digest, is_well_formed
from policy.authentication import find_caller
from policy.callers import Caller


def find_valid_key(key: str, address: str = "127.0.0.1") -> Caller:
    """Find the caller of a key that is in force, as a request from an address does.

    Raises:
        InvalidApiKey: malformed, unknown, expired, revoked, or not accepted from there.
    """
    if not is_well_formed(key):
        raise InvalidApiKey
    return find_caller(digest(key), {"REMOTE_ADDR": address})

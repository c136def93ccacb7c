"""What the chains say of payees. Services ask it by `settings.PAYEE_CHECK`: they know neither payments nor chains."""

import logging

from allowance.kernel.errors import OperationRefused
from chains.port import ChainUnavailable
from payments.served_chains import served_chains

log = logging.getLogger(__name__)


def find_objection(chain: str, address: str) -> str | None:
    """Say in a sentence why an address is not to be paid on a chain (CAIP-2), as far as that can tell; None: pay it.

    Raises:
        OperationRefused: the chain cannot be asked now.
    """
    try:
        return served_chains()[chain].find_objection(address)
    except ChainUnavailable as error:
        log.warning("%s on %s cannot be looked at: %s", address, chain, error)
        raise OperationRefused(f"{address} cannot be looked at on its chain now, try again: {error}") from error

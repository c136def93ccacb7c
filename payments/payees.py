"""Ask the chains about payees, for `services` (`settings.PAYEE_CHECK`), which know neither payments nor chains."""

import logging

from allowance.kernel.errors import OperationRefused
from chains.port import ChainUnavailable
from payments.served_chains import served_chains

log = logging.getLogger(__name__)


def find_objection(chain: str, address: str) -> str | None:
    """Say in a sentence why an address must not be paid on a chain (CAIP-2); None: the chain knows no reason.

    Raises:
        OperationRefused: the chain cannot be asked now.
    """
    try:
        return served_chains()[chain].find_objection(address)
    except ChainUnavailable as error:
        log.warning("%s on %s cannot be checked: %s", address, chain, error)
        raise OperationRefused(f"{address} cannot be checked on its chain now, try again: {error}") from error

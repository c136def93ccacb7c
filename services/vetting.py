"""Check a service before it is approved: against the configuration, and with its chain."""

import logging

from django.conf import settings

from chains.port import ChainUnavailable
from foundation.kernel.errors import OperationRefused
from services.models import Service
from services.served_chains import served_chains

log = logging.getLogger(__name__)


def check_payable(service: Service, *, allow_off_curve: bool) -> None:
    """Check a registration against the configuration; asks no node.

    Raises:
        OperationRefused: its chain or asset is not served here, or its recipient must not be paid.
    """
    served = settings.CHAINS.get(service.chain)
    if served is None:
        raise OperationRefused(f"{service.id} is on {service.chain}, which this deployment does not serve.")
    if service.asset not in served.tokens:
        raise OperationRefused(f"{service.id} is paid in {service.asset}, which is not served on {served.chain.alias}.")
    if service.asset in served.left_out:
        raise OperationRefused(f"{service.id} is paid in {service.asset}, which is left out on {served.chain.alias}.")
    if served.is_own_contract(service.address):
        raise OperationRefused(f"{service.id} names a contract of ours or of a token as its recipient.")
    if service.is_off_curve and not allow_off_curve:
        raise OperationRefused(
            f"{service.id} names {service.address}, which is off the curve: it belongs to a program, and nobody can "
            "sign for it with a key. If that is meant, as with a multisig's vault, run: "
            f"manage.py approve_service {service.id} --allow-off-curve"
        )


def check_with_chain(service: Service) -> None:
    """Ask the chain whether the recipient can be paid. This asks nodes, so call it under no lock.

    Raises:
        OperationRefused: it cannot, or the nodes do not answer now.
    """
    objection = find_objection(service.chain, service.address)
    if objection is not None:
        raise OperationRefused(f"{service.id} cannot be paid at {service.address}: {objection}")


def find_objection(chain: str, address: str) -> str | None:
    """Say in a sentence why an address is not to be paid on a chain (CAIP-2); None: the chain has no objection.

    Raises:
        OperationRefused: the chain cannot be asked now.
    """
    try:
        accounts = served_chains()[chain].payee_accounts
        return None if accounts is None else accounts.find_objection(address)
    except ChainUnavailable as error:
        log.warning("%s on %s cannot be checked: %s", address, chain, error)
        raise OperationRefused(f"{address} cannot be checked on its chain now, try again: {error}") from error

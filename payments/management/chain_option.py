"""Name a chain in a command's options."""

from django.core.management.base import CommandError

from chains.catalogue import find_chain
from services.served_chains import served_chains


def read_chain(name: str) -> str:
    """Read the CAIP-2 id of a served chain from an alias, or from itself.

    Raises:
        CommandError: it is not served.
    """
    chain = find_chain(name)
    if chain is None or chain.caip2 not in served_chains():
        raise CommandError(f"The chain {name} is not served here.")
    return chain.caip2

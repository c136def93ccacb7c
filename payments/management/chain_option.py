"""Name a chain in a command's options, and ask before anything is done on one with real money."""

from django.core.management.base import CommandError

from chains.catalogue import Chain, find_chain
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


def require_consent(chain: Chain, *, is_asked: bool, otherwise: str) -> None:
    """Ask the operator to type the name of a chain with real money; `is_asked` is False with --yes.

    Raises:
        CommandError: the answer is another one (it says `otherwise`), or there is nobody to ask.
    """
    if chain.is_test or not is_asked:
        return
    try:
        answer = input(f"{chain.alias} has real money. Type its name to go on: ")
    except EOFError:
        raise CommandError("There is nobody to ask: --yes goes on without asking.") from None
    if answer.strip() != chain.alias:
        raise CommandError(otherwise)

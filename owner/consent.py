"""Ask before anything is done on a chain with real money."""

from django.core.management.base import CommandError

from chains.catalogue import Chain


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

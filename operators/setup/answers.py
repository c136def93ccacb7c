"""What only the operator knows: by options, by the environment, or asked for on a terminal."""

from collections.abc import Callable, Mapping
from typing import Any

from chains.chain_settings import VARIABLES
from foundation.kernel.secrecy import SecretText
from operators.setup.checks import chain_named, find_problems
from operators.setup.variables import ASKED

OPTIONS = {
    "DATABASE_URL": "database_url",
    "REDIS_URL": "redis_url",
    "ALLOWED_HOSTS": "host",
    "CONSOLE_URL": "console_url",
}
_CHAIN = "A chain to serve (base-sepolia, say; nothing: no further one): "
_NODES = "Addresses of its nodes, separated by commas: "


def read_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Read the options, by the names of the variables.

    Raises:
        ValueError: a chain is not known, or is named twice.
    """
    given = {name: options[option] for name, option in OPTIONS.items() if options[option]}
    for text in options["chain"]:
        alias, _, urls = text.partition("=")
        name = f"{chain_named(alias).variables}_RPC_URLS"
        if not urls or name in given:
            raise ValueError("--chain: Must be CHAIN=URL,URL, each chain once.")
        given[name] = SecretText(urls)
    return given


def read_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Take over what a shell already has of that which would be asked for."""
    asked = [*OPTIONS, *sorted(name for name in VARIABLES if name.endswith("_RPC_URLS"))]
    return {name: SecretText(environment[name]) for name in asked if environment.get(name)}


def ask(present: Mapping[str, str], read: Callable[[str], str], tell: Callable[[str], object]) -> dict[str, str]:
    """Ask for what is not `present`, again while an answer is malformed. No answer leaves it out."""
    values = {**present}

    def ask_for(name: str, question: str) -> None:
        while answer := read(question).strip():
            problems = find_problems({**values, name: SecretText(answer)})
            if not problems:
                values[name] = SecretText(answer)
                return
            tell(" ".join(problems))

    for one in ASKED:
        if one.name not in present:
            ask_for(one.name, f"{one.sentence} Such as {one.example}: ")
    while alias := read(_CHAIN).strip():
        try:
            name = f"{chain_named(alias).variables}_RPC_URLS"
        except ValueError as error:
            tell(str(error))
            continue
        if name in values:
            tell(f"{name} is set already.")
        else:
            ask_for(name, _NODES)
    return {name: value for name, value in values.items() if name not in present}


def refuse_other_values(present: Mapping[str, str], given: Mapping[str, str]) -> None:
    """Refuse to change what is there.

    Raises:
        ValueError: names what is there with another value.
    """
    changed = [name for name in given if name in present and present[name] != given[name]]
    if changed:
        raise ValueError(f"{', '.join(changed)}: the file has another value, which setup never changes. Edit the file.")

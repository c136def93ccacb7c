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
    asking = _Asking(present, read, tell)
    for one in ASKED:
        if one.name not in present:
            asking.ask(one.name, f"{one.says} Such as {one.example}: ")
    asking.ask_for_chains()
    return asking.answers


class _Asking:
    def __init__(self, present: Mapping[str, str], read: Callable[[str], str], tell: Callable[[str], object]) -> None:
        self._present = present
        self._read = read
        self._tell = tell
        self.answers: dict[str, str] = {}

    def ask(self, name: str, question: str) -> None:
        while answer := self._read(question).strip():
            values = {**self._present, **self.answers, name: SecretText(answer)}
            problems = find_problems(values)
            if not problems:
                self.answers[name] = values[name]
                return
            self._tell(" ".join(problems))

    def ask_for_chains(self) -> None:
        while alias := self._read(_CHAIN).strip():
            try:
                name = f"{chain_named(alias).variables}_RPC_URLS"
            except ValueError as error:
                self._tell(str(error))
                continue
            if name in {**self._present, **self.answers}:
                self._tell(f"{name} is set already.")
            else:
                self.ask(name, _NODES)


def refuse_other_values(present: Mapping[str, str], given: Mapping[str, str]) -> None:
    """Refuse to change what is there.

    Raises:
        ValueError: names what is there with another value.
    """
    changed = [name for name in given if name in present and present[name] != given[name]]
    if changed:
        raise ValueError(f"{', '.join(changed)}: the file has another value, which setup never changes. Edit the file.")

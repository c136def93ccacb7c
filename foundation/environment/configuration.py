"""Read the environment by the table of settings, and collect all faults instead of stopping at the first."""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from environ import Env

from foundation.environment.process_types import EVERY_TYPE, ProcessType
from foundation.environment.table import is_reader, setting_of
from foundation.environment.variables import find_unknown
from foundation.kernel.secrecy import SecretText


class Configuration:
    """The environment, or other `variables`, as far as a process of some `types` reads them.

    `problems` has a sentence for each variable that is missing or malformed; never its value.
    """

    def __init__(self, types: frozenset[ProcessType] = EVERY_TYPE, variables: Mapping[str, str] | None = None) -> None:
        self.problems: list[str] = []
        self.types = types
        self._variables = os.environ if variables is None else variables

    def is_read(self, name: str) -> bool:
        """Tell whether this process reads a variable."""
        return is_reader(self.types, name)

    def is_set(self, name: str) -> bool:
        """Tell whether a variable is set that this process reads."""
        return self.is_read(name) and bool(self._variables.get(name))

    def read(
        self,
        name: str,
        *,
        default: str | None = None,
        cast: Callable[[str], Any] | None = None,
        is_needed: bool | None = None,
    ) -> Any:
        """Read a variable by its row of the table, but for what is said otherwise here.

        Returns its default if it is not set, if this process does not read it, or if it is malformed; without one None.
        An empty variable counts as not set.

        Raises:
            LookupError: the table has no such variable.
        """
        setting = setting_of(name)
        default, cast = setting.default if default is None else default, cast or setting.cast
        reader = partial(_read_hidden, cast) if setting.is_secret else cast
        if (setting.is_required if is_needed is None else is_needed) and self.is_read(name) and not self.is_set(name):
            self.problems.append(f"{name} is not set.")
        try:
            # The default is a text, as an operator would write it, and read like one.
            return self._env_of(name)(name, cast=reader, default=default, parse_default=True)
        except ValueError as error:
            self.problems.append(f"{name} {error}")
            return None if default is None else cast(default)

    def _env_of(self, name: str) -> Env:
        """Make an `Env` that has this variable alone: no copy of a secret outlives its reading.

        django-environ takes a value that begins with "$" for the name of another variable. Every "$" is escaped here,
        and `escape_proxy` takes exactly that back: a password is what was set.
        """
        env = Env()
        env.ENVIRON = {name: self._variables[name].replace("$", r"\$")} if self.is_set(name) else {}
        env.escape_proxy = True
        return env

    def read_switch(self, name: str, *, is_embedded: bool) -> bool:
        """Read true or false of a switch that may be true on a developer's machine only."""
        is_set: bool = self.read(name)
        if is_set and not is_embedded:
            self.problems.append(f"{name} is for development: it must not be set without EMBEDDED.")
        return is_set and is_embedded

    def refuse_unknown_names(self, known: Iterable[str]) -> None:
        """Add a problem for each variable that resembles a known one."""
        self.problems += find_unknown(filter(self._variables.get, self._variables), known)


def _read_hidden(cast: Callable[[str], Any], text: str) -> Any:
    """Read a secret, which prints itself as asterisks in the frames of what reads it."""
    return cast(SecretText(text))

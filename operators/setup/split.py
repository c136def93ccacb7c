"""Give each type of process a file with the variables that it reads, and no others."""

import re
from collections.abc import Mapping
from pathlib import Path

from foundation.environment.process_types import ProcessType
from foundation.environment.table import find_setting, is_reader
from operators.setup.env_file import line_of, replace

# The lines of the Procfile; `release` is made of commands.
_FILES = {kind: "release" if kind is ProcessType.COMMAND else kind.value for kind in ProcessType}
_LIKE_A_SECRET = re.compile("(PASSWORD|PASSWD|SECRET|TOKEN|CREDENTIALS?|SEED|KEY)$")
_HEAD = "# What `{name}` reads of {source}: made by `manage.py setup --split`, which writes it anew. Do not edit it.\n"


def split(values: Mapping[str, str], source: Path, folder: Path) -> dict[str, list[str]]:
    """Write `<type>.env` for each type of process; returns the names of the variables of each file."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = {}
    for kind, name in _FILES.items():
        own = {one: value for one, value in values.items() if belongs_to(kind, one)}
        lines = (f"{line_of(*pair)}\n" for pair in own.items())
        replace(folder / f"{name}.env", _HEAD.format(name=name, source=source.name) + "".join(lines))
        written[f"{name}.env"] = [*own]
    return written


def belongs_to(kind: ProcessType, name: str) -> bool:
    """Tell whether a process of a type has use for a variable. What is no secret may be had by all.

    What looks like one and is none of ours belongs to another program, or is misspelt: no server gets it.
    """
    setting = find_setting(name)
    if kind is ProcessType.COMMAND:  # an owner's keys are given to the one command that needs them, in a shell
        return setting is None or bool(setting.holders)
    if setting is None and _LIKE_A_SECRET.search(name):
        return False
    return is_reader(frozenset({kind}), name)

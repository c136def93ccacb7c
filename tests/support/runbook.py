"""Pages of docs/operate whose commands are run as they stand: their blocks of `bash`, by one bash, line by line."""

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.documents.pages import FENCE
from workshop.localnet.account import Account
from workshop.localnet.folder import ROOT

_HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)
# It stands in the first line of the script, where the page has its title.
_STRICT = "set -Eeuo pipefail; trap 'echo \"$PAGE:$LINENO: status $?: $BASH_COMMAND\" >&2' ERR"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: the language that its fence names, its text, the heading it stands under, its first line."""

    info: str
    code: str
    heading: str
    page: str
    line: int


@dataclass(frozen=True, slots=True)
class Done:
    """What the commands printed."""

    output: str
    errors: str

    @property
    def answer(self) -> Any:
        """Read the JSON of the last line, as our commands print it."""
        return json.loads(self.output.strip().rpartition("\n")[2])


def blocks(page: str) -> list[Block]:
    """Read the blocks of a page (a path from the root), also those inside lists."""
    text = (ROOT / page).read_text()
    fences = list(FENCE.finditer(text))
    # A comment of a script is no heading.
    prose = FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0]), text)
    return [
        Block(
            info=fence[2],
            code=textwrap.dedent(fence[3]),
            heading=(_HEADING.findall(prose, 0, fence.start()) or [""])[-1],
            page=page,
            line=text.count("\n", 0, fence.start(3)) + 1,
        )
        for fence in fences
    ]


def run(
    chosen: Sequence[Block],
    variables: Mapping[str, str],
    *,
    folder: Path = ROOT,
    account: Account | None = None,
    status: int = 0,
    typed: str = "",
    timeout_s: float = 300,
) -> Done:
    """Run the `bash` blocks of one page in one shell, which stops where a command fails.

    `variables`: the shell's whole environment, but for PATH, where this Python comes first. `folder`: where it begins.
    `account`: whose shell it is. `typed`: what it is answered. What it leaves in the background goes on. Raises
    AssertionError if it does not end with this status: it names the page's line and shows what was printed.
    """
    shell: list[str | Path] = ["bash", "-c", _script(chosen)]
    environment = {**variables, "PAGE": chosen[0].page, "PATH": _path(variables)}
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        done = subprocess.run(
            account.command(*shell) if account else shell, env=environment, cwd=folder, input=typed, text=True,
            stdout=output, stderr=errors, timeout=timeout_s, check=False, **(account.options if account else {}),
        )  # fmt: skip
        found = Done(*(_read(file) for file in (output, errors)))
    assert done.returncode == status, f"status {done.returncode}\n{found.output}\n{found.errors}"
    return found


def _script(chosen: Sequence[Block]) -> str:
    """Put each block at its line of the page, so that what bash says of a line is true of the page."""
    lines = [_STRICT]
    for block in chosen:
        assert block.line > len(lines), f"{block.page}:{block.line} stands before what is run already"
        lines += [""] * (block.line - 1 - len(lines))
        lines += block.code.splitlines() if block.info == "bash" else []
    return "\n".join(lines)


def _path(variables: Mapping[str, str]) -> str:
    return os.pathsep.join([str(Path(sys.executable).parent), variables.get("PATH", os.defpath)])


def _read(file: Any) -> str:
    file.seek(0)
    return str(file.read())

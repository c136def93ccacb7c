"""`make hard`: what a release needs beyond `make test`, one part after the other, and in the end what became of each.

Each part is a command of its own; whoever has mended what failed runs that one alone. A part whose programs are not
installed here is named as left out.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Part:
    """A command, and which programs it needs; as root, if it makes machines or images."""

    command: str
    needs: Sequence[str] = ()
    is_for_root: bool = False

    @property
    def missing(self) -> list[str]:
        """What keeps this machine from running it."""
        here = os.environ["PATH"] + ":/usr/sbin"
        missing = [name for name in self.needs if shutil.which(name, path=here) is None]
        return [*missing, "root"] if self.is_for_root and os.geteuid() != 0 else missing


PARTS = (
    Part("make wheels"),
    Part("make hard-tests"),
    Part("make coverage"),
    Part("make crashtest"),
    Part("make overspend"),
    Part('make fuzz ARGS="--minutes 3"'),
    Part("make contract-breaks", ("npm",)),
    Part("make image-drill", ("buildah", "podman", "runc", "debootstrap"), is_for_root=True),
    Part("DECIDE_TOGETHER=1 make test"),
)


def play_all(parts: Sequence[Part]) -> bool:
    """Play each part, whatever became of those before it; tells whether none has failed."""
    outcomes: dict[str, str] = {}
    for number, part in enumerate(parts, 1):
        _say(f"{number} of {len(parts)}: {part.command}")
        outcomes[part.command] = play(part)
    width = max(map(len, outcomes))
    _say("What a release needs beyond `make test`:")
    sys.stdout.writelines(f"  {command:{width}}  {outcome}\n" for command, outcome in outcomes.items())
    return not any(outcome.startswith("FAILED") for outcome in outcomes.values())


def play(part: Part) -> str:
    """Run a part, whose output is shown as it comes, and say what became of it."""
    if part.missing:
        return f"left out: needs {', '.join(part.missing)}"
    began = time.monotonic()
    status = subprocess.run(["sh", "-c", part.command], cwd=_ROOT, check=False).returncode
    took = f"in {time.monotonic() - began:.0f} s"
    return f"passed {took}" if status == 0 else f"FAILED {took}, with status {status}"


def _say(what: str) -> None:
    sys.stdout.write(f"\n==> {what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(not play_all(PARTS))

"""Become a process of the Procfile: `python -m allowance.run web`. Images and units start processes by this.

`manage` takes the place of `python manage.py`. What stands behind a name is added to its last command.
"""

import os
import subprocess
import sys

from foundation.environment.procfile import ROOT, commands_of, process_names


def main(name: str = "", *arguments: str) -> None:
    """Run all commands of a line but the last, and put the last in the place of this process, so that signals reach it.

    Raises:
        SystemExit: there is no such line, or a command failed.
    """
    names = [*process_names(), "manage"]
    if name not in names:
        sys.exit(f"usage: python -m allowance.run {'|'.join(names)} [ARGUMENT ...]")
    os.chdir(ROOT)
    *first, last = [["manage.py"]] if name == "manage" else commands_of(name)
    if first and not {"-h", "--help"}.isdisjoint(arguments):
        print(f"{name} runs these, one after the other, and stops at the first that fails:")  # noqa: T201 - for people
        print(*(f"  python {' '.join(command)}" for command in (*first, last)), sep="\n")  # noqa: T201
        return
    for command in first:
        status = subprocess.run([sys.executable, *command], check=False).returncode  # noqa: S603 - the Procfile's
        if status:
            sys.exit(status)
    os.execv(sys.executable, [sys.executable, *last, *arguments])  # noqa: S606 - the Procfile's


if __name__ == "__main__":
    main(*sys.argv[1:])

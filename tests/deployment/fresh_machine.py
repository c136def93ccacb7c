"""`make fresh-machine`: the README's two commands on a machine that has Python, make and git, and no compiler.

Debian is installed into a folder by `debootstrap`, from the mirror that this machine uses itself; a clone of this
checkout's last commit goes into it, and the commands run there with nothing of this machine's but its network. Needs
root and Debian's package debootstrap, and no package of Python's: so a newcomer's environment is not made before.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITES = {"trixie": "Debian 13", "sid": "Debian unstable"}
_PACKAGES = "python3,python3-venv,make,git,ca-certificates"
_COMMANDS = {"demo": "make demo ARGS=--once", "test": "make test"}
# How this machine reaches registries, if not directly: an address, an authority.
_FROM_HERE = ("etc/resolv.conf", "etc/hosts", "etc/pip.conf", "etc/ssl/certs/ca-certificates.crt")
_CLONE = "root/allowance"
_ENVIRONMENT = ("HOME=/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8")
_HIDDEN = ("gcc", "cc", "clang")
# In namespaces of its own: whatever ends this, no mount and no process is left.
_INSIDE = """
set -e
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
mount -t tmpfs tmpfs "$0/dev/shm"
exec chroot "$0" env -i {environment} sh -c 'cd /{clone} && {command}'
"""


def main() -> None:
    """Play the commands that are asked for on each machine that is asked for; ends with 1 if one fails."""
    options = _parser().parse_args()
    if os.geteuid() != 0:
        sys.exit("Run it as root: it makes a machine in a folder (debootstrap, chroot).")
    if shutil.which("debootstrap") is None:
        sys.exit("Install Debian's package first: apt-get install debootstrap")
    for suite in options.suite or SUITES:
        with tempfile.TemporaryDirectory(prefix=f"allowance-{suite}-") as folder:
            _play(suite, Path(folder), options.command or [*_COMMANDS])


def _play(suite: str, machine: Path, commands: list[str]) -> None:
    machine.chmod(0o755)
    _say(f"installing {SUITES[suite]} with {_PACKAGES}")
    _install(suite, machine)
    for name in _FROM_HERE:
        if (Path("/") / name).exists():
            shutil.copyfile(Path("/") / name, machine / name)
    _run("git", "-c", f"safe.directory={ROOT}", "clone", "--quiet", str(ROOT), str(machine / _CLONE))
    if compilers := [name for name in _HIDDEN if (machine / "usr/bin" / name).exists()]:
        sys.exit(f"{SUITES[suite]} came with a compiler: {', '.join(compilers)}")
    _inside(machine, "python3 --version && git log -1 --oneline")
    for command in commands:
        began = time.monotonic()
        _say(f"{SUITES[suite]}: {_COMMANDS[command]}")
        _inside(machine, _COMMANDS[command])
        _say(f"{SUITES[suite]}: {_COMMANDS[command]} took {time.monotonic() - began:.0f} s")


def _install(suite: str, machine: Path) -> None:
    """Install Debian; a mirror that fails now and then is asked again for what is missing."""
    command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", suite, str(machine), _mirror()]
    if all(subprocess.run(command, check=False).returncode for _ in range(2)):
        _run(*command)


def _inside(machine: Path, command: str) -> None:
    script = _INSIDE.format(environment=" ".join(_ENVIRONMENT), clone=_CLONE, command=command)
    _run("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, str(machine))


def _mirror() -> str:
    """Name the mirror that this machine installs Debian's packages from."""
    sources = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("debian*"))]
    text = "\n".join(path.read_text() for path in sources if path.exists())
    found = re.search(r"^(?:URIs:|deb(?: \[.*?\])?)\s+(\S+)", text, re.MULTILINE)
    return found.group(1) if found else sys.exit("No mirror of Debian is named in /etc/apt: is this Debian?")


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False)
    if done.returncode:
        sys.exit(f"{command[0]} failed with {done.returncode}.")


def _say(what: str) -> None:
    print(f"\n{time.strftime('%H:%M:%S')}  {what}", flush=True)  # noqa: T201 - for whoever runs it


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--suite", choices=SUITES, action="append", help="which Debian; both, unless named")
    parser.add_argument("--command", choices=_COMMANDS, action="append", help="which command; both, unless named")
    return parser


if __name__ == "__main__":
    main()

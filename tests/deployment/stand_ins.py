"""What takes the place of programs that a machine of tests cannot have: a network with packages, and systemd.

`apt-get` finds the packages installed, and starts their servers as Debian does. `pip` gives the packages of the lock
that it is told, those of this test session, and no others. `systemctl` does what the units say, as far as they say who
starts what with which variables.
"""

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

NAMES = ("apt-get", "python3", "systemctl")
# Of this session, where every user can reach them.
PACKAGES = Path("/opt/packages-of-tests")
PYTHON = Path("/opt/python-of-tests")
_UNITS = Path("/etc/systemd/system")
_STARTED = Path("/run/units")
_REDIS = Path("/run/redis/redis-server.pid")
_PATIENCE_S = 120


def apt_get(verb: str, *arguments: str) -> None:
    """Refuse packages that are not there; start the servers of those that are."""
    # What makes virtual environments is this session's.
    packages = [name for name in arguments if not name.startswith("-") and name != "python3-venv"]
    if verb == "update" or not packages:
        return
    subprocess.run(["dpkg-query", "--show", *packages], check=True, stdout=subprocess.DEVNULL)
    if "postgresql" in packages:
        _folder("/run/postgresql", "postgres")
        newest = max((path.name for path in Path("/usr/lib/postgresql").iterdir()), key=int)
        _run("pg_createcluster", "--start", newest, "main")
    if "redis-server" in packages:
        _folder("/var/lib/redis", "redis")
        _folder("/run/redis", "redis")
        _start_redis()


def python3(*arguments: str) -> None:
    """Make a virtual environment of this session's Python, with a stand-in for pip."""
    assert arguments[:2] == ("-m", "venv")
    folder = Path(arguments[2]).absolute()
    _run(PYTHON / "bin" / f"python3.{sys.version_info.minor}", "-m", "venv", "--without-pip", folder)
    program = folder / "bin/pip"
    program.write_text(Path(shutil.which("python3") or "").read_text().replace(" python3 ", " pip "))
    program.chmod(0o755)


def pip(verb: str, *arguments: str) -> None:
    """Put the packages of a lock into the virtual environment of the current folder, and their programs."""
    lock = Path(arguments[arguments.index("-r") + 1])
    assert verb == "install"
    assert "--require-hashes" in arguments
    site = next(Path(".venv/lib").glob("python3.*/site-packages")).absolute()
    for name, version in re.findall(r"^([a-z0-9][\w.-]*)==([^\s;\\]+)", lock.read_text(), re.MULTILINE):
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # of another system
        assert package.version == version
        for top in {file.parts[0] for file in package.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(PACKAGES / top)
        for point in package.entry_points.select(group="console_scripts"):
            _write_program(Path(".venv/bin").absolute(), point)


def systemctl(*arguments: str) -> None:
    verb, *names = [word for word in arguments if not word.startswith("-")]
    if (verb, names) == ("restart", ["redis-server"]):
        os.kill(int(_REDIS.read_text()), signal.SIGTERM)
        _wait_until(lambda: not _REDIS.exists())
        _start_redis()
    elif verb == "start" or "--now" in arguments:
        for name in names:
            _start(name)
    elif verb != "daemon-reload":
        sys.exit(f"systemctl {' '.join(arguments)} is not played here.")


def _start(name: str) -> None:
    """Start what a target wants; a service with the variables that its unit names and no others, as its user."""
    unit = _read(name)
    for wanted in " ".join(unit["Wants"]).split():
        if (_UNITS / wanted).exists():
            _start(wanted)
    if not unit["ExecStart"]:
        return
    files = [Path(path).read_text() for path in unit["EnvironmentFile"]]
    pairs = re.findall(r"^(\w+)='?(.*?)'?$", "\n".join([*" ".join(unit["Environment"]).split(), *files]), re.MULTILINE)
    owner = pwd.getpwnam(unit["User"][-1])
    _STARTED.mkdir(exist_ok=True)
    with (_STARTED / f"{name}.log").open("w") as output:
        process = subprocess.Popen(
            unit["ExecStart"][-1].split(), env={"PATH": "/usr/bin:/bin", **dict(pairs)}, umask=0o077,
            cwd=unit["WorkingDirectory"][-1], user=owner.pw_uid, group=owner.pw_gid, extra_groups=[],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    if unit["Type"] == ["oneshot"] and process.wait():
        sys.exit(f"{name} failed.")


def _read(name: str) -> dict[str, list[str]]:
    """Read a unit, and what all units share whose names begin alike: each setting with all its values."""
    found: dict[str, list[str]] = defaultdict(list)
    file = _UNITS / (name if "." in name else f"{name}.service")
    prefix, _, _ = file.name.partition("-")
    for part in (file, *sorted((_UNITS / f"{prefix}-{file.suffix}.d").glob("*.conf"))):
        for key, value in re.findall(r"^(\w+)=(.*)$", part.read_text(), re.MULTILINE):
            found[key].append(value)
    return found


def _write_program(folder: Path, point: metadata.EntryPoint) -> None:
    program = folder / point.name
    program.write_text(
        f"#!{folder}/python\nimport sys\nfrom {point.module} import {point.attr}\nsys.exit({point.attr}())\n"
    )
    program.chmod(0o755)


def _start_redis() -> None:
    _run("runuser", "-u", "redis", "--", "redis-server", "/etc/redis/redis.conf")
    _wait_until(_REDIS.exists)


def _folder(path: str, owner: str) -> None:
    Path(path).mkdir(exist_ok=True)
    shutil.chown(path, owner)


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, cwd="/")


_PROGRAMS: dict[str, Callable[..., None]] = {"apt-get": apt_get, "python3": python3, "pip": pip, "systemctl": systemctl}

if __name__ == "__main__":
    os.umask(0o022)
    _PROGRAMS[sys.argv[1]](*sys.argv[2:])

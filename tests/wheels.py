"""`make wheels`: ask whether each locked package has a wheel for every Python and platform, so that none is compiled.

The installer resolves the largest lock, which has the pins of the others, for a machine of that kind: wheels only, by
their hashes. It installs nothing, and asks the index that this machine uses.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements-dev.txt"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = {
    "Linux, x86-64": "x86_64-manylinux_2_28",
    "Linux, ARM": "aarch64-manylinux_2_28",
    "macOS, Apple Silicon": "aarch64-apple-darwin",
    "macOS, Intel": "x86_64-apple-darwin",
}
# Whose makers have ended their wheels for Macs with Intel's processor: there, these are compiled.
COMPILED = {"macOS, Intel": ("ckzg", "cryptography", "lazy-object-proxy")}


def main() -> None:
    """Ask for each lock, Python and platform; ends with 1 and the installer's reason for those that lack a wheel."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    lacking = [*find_lacking(LOCK)]
    print(*lacking, sep="\n")  # noqa: T201 - for whoever runs it
    sys.exit(bool(lacking))


def find_lacking(lock: Path) -> Iterator[str]:
    """Find the kinds of machine on which something of a lock has no wheel, with the installer's reason."""
    for platform, name in PLATFORMS.items():
        for python in PYTHONS:
            compiled = [f"--no-binary={package}" for package in COMPILED.get(platform, ())]
            command = [
                *(sys.executable, "-m", "uv", "pip", "install", "--dry-run", "--quiet", "--system-certs"),
                *("--no-deps", "--require-hashes", "--only-binary=:all:", *compiled, "--python-platform", name),
                *("--python-version", python, "--target", tempfile.gettempdir(), "--requirements", str(lock)),
            ]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            said = "" if done.returncode == 0 else f":\n{done.stderr}"
            print(f"Python {python}  {platform:22}{'lacks a wheel' if said else 'ok'}", flush=True)  # noqa: T201
            if said:
                yield f"Python {python} on {platform}{said}"


if __name__ == "__main__":
    main()

"""Run tests on Citus clusters: a coordinator and two workers, made for this run and removed after it.

First the tests of this folder, then `make overspend` in short, on a cluster of its own; that is left out if ARGS are
given.

CITUS names a folder with `cluster.py`, which starts PostgreSQL with Citus and runs a command beside it, and with
`install.sh`, which installs Citus where it is missing (as root). Arguments are pytest's: ARGS="-k storm".
"""

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_LIBRARY = Path("/usr/lib/postgresql/15/lib/citus.so")
# The library is built for the newest of Debian's; an older one lacks symbols that it needs.
_UPGRADE = (
    "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -yqq --no-install-recommends postgresql-15"
)


def main() -> int:
    folder = Path(os.environ.get("CITUS", ""))
    if not (folder / "cluster.py").is_file():
        sys.stderr.write("Name the folder with cluster.py in CITUS: CITUS=../citus make test-citus\n")
        return 2
    if not _LIBRARY.exists():
        subprocess.run(["sh", "-c", _UPGRADE], check=True)
        subprocess.run(["bash", str(folder / "install.sh")], check=True)
    pytest = [sys.executable, "-m", "pytest", "tests/distributed", "-p", "no:cacheprovider", *sys.argv[1:]]
    cluster = [sys.executable, str((folder / "cluster.py").resolve()), "--workers", "2"]
    on_the_coordinator = ["sh", "-c", 'DATABASE_URL="$CITUS_DATABASE_URL" exec "$@"', "sh"]
    status = subprocess.run([*cluster, *on_the_coordinator, *pytest], cwd=_ROOT, check=False).returncode
    if status == 0 and not sys.argv[1:]:
        overspend = [sys.executable, "-m", "tests.overspend", "--short"]
        status = subprocess.run([*cluster, *overspend], cwd=_ROOT, check=False).returncode
    return status


if __name__ == "__main__":
    sys.exit(main())

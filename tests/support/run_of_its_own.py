"""Runs a program of the tests with servers, data and settings of its own."""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

# The coordinator of a Citus cluster, which takes the place of this run's own PostgreSQL.
CLUSTER = "CITUS_DATABASE_URL"
# Whatever else the environment configures is not for this run.
_OTHERS = (
    "DATABASE_URL",
    "REDIS_URL",
    "SECRET_KEY",
    "POLICY_SIGNER_",
    "RELAYER",
    "CHAIN_",
    "HTTPS",
    "PG",
    "RATE_LIMIT",
)


def run_on_its_own(
    name: str, seed: int, parent: Path | None, settings: Mapping[str, str], run: Callable[[Path], bool]
) -> Path | None:
    """Run in a new folder; return it if something was not as promised: then it stays, otherwise it is removed."""
    if parent is not None:
        parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
    for variable in list(os.environ):
        if variable.startswith(_OTHERS):
            del os.environ[variable]
    os.environ.update(settings, EMBEDDED_DIR=str(folder / "data"))
    sys.stdout.write(f"seed {seed}, folder {folder}\n")
    # Behind the servers: they are stopped when this process ends, and what is registered first comes last.
    removal = atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _start_servers()
    if run(folder):
        return None
    atexit.unregister(removal)
    return folder


def _start_servers() -> None:
    # The settings come first.
    import django  # noqa: PLC0415

    from workshop import embedded  # noqa: PLC0415

    embedded.start()
    if url := os.environ.get(CLUSTER):
        os.environ["DATABASE_URL"] = url
    django.setup()

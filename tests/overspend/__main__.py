"""Overspend, as hard as one can: storms against real processes while everything else goes wrong; then count."""

import argparse
import atexit
import os
import secrets
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from tests.overspend.names import TITLES

_SETTINGS = {
    "EMBEDDED": "true",
    "DJANGO_SETTINGS_MODULE": "allowance.settings",
    "DEBUG": "false",
    "LOG_LEVEL": "ERROR",
    # No watcher runs: what was seen of the chain at the start stays good, also where the clock is weeks ahead.
    "CHAIN_STATE_MAX_AGE_S": str(60 * 60 * 24 * 60),
    "PAYMENT_VALIDITY_S": "3600",
}
# Whatever else the environment configures is not for this run: it has servers of its own.
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


def main() -> int:
    options = _parser().parse_args()
    folder = Path(tempfile.mkdtemp(prefix="overspend-", dir=options.folder))
    for name in list(os.environ):
        if name.startswith(_OTHERS):
            del os.environ[name]
    os.environ.update(_SETTINGS, EMBEDDED_DIR=str(folder / "data"))
    sys.stdout.write(f"seed {options.seed}, folder {folder}\n")
    # Behind the servers: they are stopped when this process ends, and what is registered first comes last.
    removal = atexit.register(shutil.rmtree, folder, ignore_errors=True)
    is_clean = _run(options, folder)
    if not is_clean:
        atexit.unregister(removal)
        sys.stderr.write(f"NOT AS PROMISED. Data: {folder}. Again, with the same seed: --seed {options.seed}\n")
    return 0 if is_clean else 1


def _run(options: argparse.Namespace, folder: Path) -> bool:
    # The settings above come first.
    import django  # noqa: PLC0415

    from allowance import embedded  # noqa: PLC0415

    embedded.start()
    django.setup()
    from tests.overspend.run import run  # noqa: PLC0415
    from tests.overspend.table import Table  # noqa: PLC0415

    table = Table()
    try:
        run(options.seed, options.scenario or list(TITLES), table, folder, is_short=options.short)
    except Exception:  # noqa: BLE001 - what was found until then belongs to the report
        table.fail(traceback.format_exc())
    table.show(options.seed)
    return table.is_clean


def _parser() -> argparse.ArgumentParser:
    scenarios = "\n".join(f"  {name:<10}{title}" for name, title in TITLES.items())
    parser = argparse.ArgumentParser(
        prog="make overspend",
        description=__doc__,
        epilog=f"scenarios:\n{scenarios}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="repeat a run's choices")
    only = "only this one, without the controls; may be repeated"
    parser.add_argument("--scenario", action="append", choices=TITLES, metavar="NAME", help=only)
    parser.add_argument("--short", action="store_true", help="every scenario with fewer agents and requests")
    parser.add_argument("--folder", type=Path, help="where the run's own folder is made (default: the temporary one)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Overspend, as hard as one can: storms against real processes while everything else goes wrong; then count."""

import argparse
import os
import secrets
import sys
import traceback
from pathlib import Path

from tests.overspend.names import OF_ONE_SERVER, TITLES
from tests.support.run_of_its_own import CLUSTER, run_on_its_own

_SETTINGS = {
    "EMBEDDED": "true",
    "DJANGO_SETTINGS_MODULE": "allowance.settings",
    "DEBUG": "false",
    "LOG_LEVEL": "ERROR",
    # No watcher runs: what was seen of the chain at the start stays good, also where the clock is weeks ahead.
    "CHAIN_STATE_MAX_AGE_S": str(60 * 60 * 24 * 60),
    "PAYMENT_VALIDITY_S": "3600",
}


def main() -> int:
    options = _parser().parse_args()
    folder = run_on_its_own("overspend", options.seed, options.folder, _SETTINGS, lambda found: _run(options, found))
    if folder is not None:
        sys.stderr.write(f"NOT AS PROMISED. Data: {folder}. Again, with the same seed: --seed {options.seed}\n")
    return 0 if folder is None else 1


def _run(options: argparse.Namespace, folder: Path) -> bool:
    # They need the settings above.
    from tests.overspend.run import run  # noqa: PLC0415
    from tests.overspend.table import Table  # noqa: PLC0415

    table = Table()
    try:
        names = [name for name in TITLES if not (CLUSTER in os.environ and name in OF_ONE_SERVER)]
        run(options.seed, options.scenario or names, table, folder, is_short=options.short)
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

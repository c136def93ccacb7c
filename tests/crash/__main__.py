"""`python -m tests.crash [--seed N] [--minutes M]`: kill everything, everywhere, while agents pay; then count."""

import argparse
import secrets
import shlex
import sys
import traceback
from pathlib import Path

from tests.crash.deadlines import VALIDITY_S
from tests.support.run_of_its_own import run_on_its_own

_SETTINGS = {
    "EMBEDDED": "true",
    "DJANGO_SETTINGS_MODULE": "allowance.settings",
    "DEBUG": "false",
    "WEBHOOKS_ALLOW_PRIVATE": "true",
    "LOG_LEVEL": "WARNING",
    "RELAYERS_PER_CHAIN": "4",
    "STUCK_AFTER_S": "4",
    # Some seconds more than what is too short for a higher fee to be worth it.
    "PAYMENT_VALIDITY_S": str(VALIDITY_S),
    "CHAIN_STATE_MAX_AGE_S": "30",
}


def main() -> int:
    options = _parser().parse_args()
    folder = run_on_its_own("crash", options.seed, options.folder, _SETTINGS, lambda found: _run(options, found))
    if folder is not None:
        given = [word for name, value in vars(options).items() if name != "folder" for word in _given(name, value)]
        again = f"make crashtest ARGS={shlex.quote(shlex.join(given))}"
        sys.stdout.write(f"\nNOT AS PROMISED. Logs and data: {folder}. Again, with the same seed: {again}\n")
    return 0 if folder is None else 1


def _given(name: str, value: object) -> list[str]:
    if isinstance(value, bool) or not value:
        return [f"--{name}"] if value else []
    return [f"--{name}", str(value)]


def _run(options: argparse.Namespace, folder: Path) -> bool:
    # They need the settings above.
    from tests.crash.story import choose, run  # noqa: PLC0415
    from tests.crash.table import Table  # noqa: PLC0415

    table = Table()
    try:
        return run(
            options.seed, options.minutes, choose(options.seed, options.only, is_short=options.short), table, folder
        )
    except Exception:  # noqa: BLE001 - what was done until then belongs to the report
        traceback.print_exc(file=sys.stdout)
        return False
    finally:
        table.show()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make crashtest", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="repeat a run's order of faults")
    parser.add_argument(
        "--minutes", type=float, default=3, help="go on injecting faults for so long (default 3; each comes once)"
    )
    parser.add_argument("--short", action="store_true", help="every kill point, but only some of the other faults")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the faults whose names contain this")
    parser.add_argument("--folder", type=Path, help="where the run's own folder is made (default: the temporary one)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""`make bench`: everything that is promised about speed, measured side by side in one run.

Each side has its turns on the same machine; a row is the median of what the turns gave, with the smallest and the
largest. It takes some twenty minutes; more --rounds or --seconds make it steadier.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.benchmarks import apart, money_path
from tests.benchmarks.report import report

_ROOT = Path(__file__).parents[2]
_PARTS = (*money_path.STAGES, "webhooks", "settlement", "console")
# Measured only if somebody names it: it needs a cluster, and root.
_CITUS = "citus"


def main() -> None:
    """Measure what is asked for, print it, and write it into a file."""
    options = _read_options()
    began, machine = time.monotonic(), _machine()
    # Now: somebody may go on working while this runs.
    commit, is_changed = _git("rev-parse", "HEAD"), bool(_git("status", "--porcelain"))
    figures: dict[str, Any] = {}
    failed: list[str] = []
    for module, arguments in _parts(options):
        try:
            figures |= apart.run(f"tests.benchmarks.{module}", arguments)
        except RuntimeError as error:
            failed.append(str(error))
    outcome = {
        "commit": commit,
        "is_changed": is_changed,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "took_s": round(time.monotonic() - began),
        "machine": machine,
        "options": {name: value for name, value in vars(options).items() if name != "json"},
        "figures": figures,
        "failed": failed,
    }
    print(report(outcome))
    if options.json:
        options.json.write_text(json.dumps(outcome, indent=1) + "\n")
    sys.exit(bool(failed))


def _parts(options: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """Name the programs that measure what is asked for, with their arguments."""
    stages = [one for one in options.only if one in money_path.STAGES]
    if stages:
        sizes = ("seconds", "rounds", "agents", "memory", "window", "log")
        yield "money_path", ["--stages", *stages, *(f"--{name}={getattr(options, name)}" for name in sizes)]
    if "webhooks" in options.only:
        few = ["--endpoints=4", "--events=2"] if options.short else []
        yield "webhooks", [f"--rounds={options.rounds}", "--hanging=0", *few]
    if "settlement" in options.only:
        few = ["--payments=20", "--agents=4", "--x402-connections=4", "--sustained=1"] if options.short else []
        yield "settlement", [f"--rounds={options.rounds}", "--history=0", *few]
    if _CITUS in options.only:
        yield "citus", [f"--rounds={options.rounds}", f"--seconds={options.seconds}"]
    if "console" in options.only:
        yield (
            "console",
            [f"--rounds={options.rounds if options.short else max(20, options.rounds)}", f"--log={options.log}"],
        )


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    says = f"What to measure (default: all but {_CITUS}, which needs a cluster in CITUS, and root)."
    parser.add_argument("--only", nargs="+", choices=(*_PARTS, _CITUS), default=_PARTS, help=says)
    parser.add_argument("--seconds", type=float, default=5, help="Length of one measurement (default: 5).")
    parser.add_argument("--rounds", type=int, default=5, help="Turns that each side has (default: 5).")
    parser.add_argument("--agents", type=int, default=1000, help="Agents that pay (default: 1000).")
    parser.add_argument(
        "--memory", type=int, default=20_000, help="Payments while memory is looked at (default: 20000)."
    )
    parser.add_argument("--window", type=int, default=100_000, help="Entries in one window (default: 100000).")
    parser.add_argument("--log", type=int, default=1_000_000, help="Entries in the log (default: 1000000).")
    parser.add_argument(
        "--full", action="store_true", help="A million entries in the window, ten in the log, a million payments."
    )
    parser.add_argument("--short", action="store_true", help="As short as can be, to see that everything starts.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="Write everything into this file as well.")
    options = parser.parse_args()
    if options.full:
        options.window, options.log, options.memory = 1_000_000, 10_000_000, 1_000_000
    if options.short:
        options.seconds, options.rounds, options.agents = 0.2, 1, 4
        options.window, options.log, options.memory = 50, 100, 40
    return options


def _machine() -> dict[str, Any]:
    pages, page_size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(pages * page_size / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_before": [round(one, 2) for one in os.getloadavg()],
    }


def _git(*arguments: str) -> str:
    found = subprocess.run(["git", *arguments], cwd=_ROOT, check=False, capture_output=True, text=True)
    return found.stdout.strip()


if __name__ == "__main__":
    main()

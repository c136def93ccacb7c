"""`python -m tests.fuzz [--seed N] [--minutes M]`: ask everything that the document allows, and what it does not."""

import argparse
import os
import secrets
import sys

import pytest


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="repeat a run's requests")
    parser.add_argument(
        "--minutes", type=float, default=0, help="go on for about so long (default: the short run of make test)"
    )
    options = parser.parse_args()
    os.environ.update(FUZZ_SEED=str(options.seed), FUZZ_MINUTES=str(options.minutes))
    sys.stdout.write(f"seed {options.seed}\n")
    return pytest.main(["tests/fuzz", "-v", "-s"])


if __name__ == "__main__":
    sys.exit(main())

"""A pytest plugin, loaded before Django reads its settings: the tests have an installation of their own.

Real PostgreSQL, Redis, EVM and Solana in `.data/test`, so that a running demo is left alone. With pytest-xdist each
worker has one, the first the one in `.data/test`. Two runs at once need two: name a folder in ALLOWANCE_TEST_DIR.
"""

import gc
import os
from pathlib import Path

from allowance.boot import NEW_OBJECTS
from workshop import embedded

_FOLDER = os.environ.get("ALLOWANCE_TEST_DIR") or str(Path(__file__).parents[2] / ".data" / "test")
# What was there before the settings were read, which add what the installation provides: a worker inherits that, too.
_GIVEN = os.environ.setdefault("ALLOWANCE_TEST_GIVEN", " ".join(os.environ))

for _name in os.environ.keys() - {*_GIVEN.split(), "ALLOWANCE_TEST_GIVEN"}:
    if not _name.startswith("PYTEST_"):
        del os.environ[_name]

# The tests' own EVM checks signatures as the embedded one does.
os.environ["ECC_BACKEND_CLASS"] = "workshop.localnet.evm.secp256k1.Libsecp256k1"
os.environ["EMBEDDED"] = "true"
os.environ["EMBEDDED_DIR"] = _FOLDER + os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw0")
# The watcher does not run in most tests: what it saw at the start stays good. Stale state has its own tests.
os.environ["CHAIN_STATE_MAX_AGE_S"] = "86400"

# Tests ask often with one key; the limit has tests of its own.
os.environ["RATE_LIMIT_PER_MINUTE"] = "60000"

gc.set_threshold(NEW_OBJECTS)  # as every process of the product does
embedded.start()

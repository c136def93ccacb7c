"""A pytest plugin, loaded before Django reads its settings: the tests have an installation of their own.

Real PostgreSQL, Redis and EVM in `.data/test`, so that a running demo is left alone.
"""

import os
from pathlib import Path

os.environ["EMBEDDED"] = "true"
# Two runs at once need two installations: name another folder for the second.
os.environ["EMBEDDED_DIR"] = os.environ.get("ALLOWANCE_TEST_DIR") or str(
    Path(__file__).parent.parent / ".data" / "test"
)
# The watcher does not run in most tests: what it saw at the start stays good. Stale state has its own tests.
os.environ["CHAIN_STATE_MAX_AGE_S"] = "86400"

from allowance import embedded

embedded.start()

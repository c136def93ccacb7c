"""A process that never outlives the demo: `python -m workshop.demo.child celery --app allowance worker`.

Its standard input is a pipe that nobody writes to. The pipe ends when the demo does, even a demo that was killed
without a chance to stop what it started. Unlike Linux's "parent death signal" this works on every system.
"""

import os
import runpy
import signal
import sys
import threading
import time
from typing import NoReturn

from allowance.boot import boot

# Longer than the web server gives its requests and the worker its tasks.
_GRACE_S = 20


def main(module: str, *arguments: str) -> None:
    """Run a module as `python -m` would, until it ends or the demo does."""
    # Until the module installs handlers of its own, and so that whatever was started below is let go in order.
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_end_with_the_demo, daemon=True).start()
    # This claims the database, Redis and the chains: the last process that ends stops them.
    boot()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _leave(*_: object) -> NoReturn:
    sys.exit(0)


def _end_with_the_demo() -> None:
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_S)
    # The group is this process's own: the demo starts each child in a session of its own.
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])

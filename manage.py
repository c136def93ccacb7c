#!/usr/bin/env python
"""Run a management command: `python manage.py help` lists them."""

import signal
import sys

from allowance.boot import boot, refuse_incomplete
from allowance.pipes import end, outlive_readers

if __name__ == "__main__":
    # By default SIGTERM would end Python without releasing what boot claims, and SIGINT with a traceback.
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, lambda number, _frame: sys.exit(128 + number))
    outlets = outlive_readers(sys.argv[1:])
    boot(sys.argv[1:])
    refuse_incomplete(sys.argv[1:])
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    from foundation.database import is_unreachable

    try:
        execute_from_command_line(sys.argv)
    except OperationalError as error:
        if not is_unreachable(error):
            raise
        sys.exit(f"The database of DATABASE_URL cannot be used: {error}")
    end(outlets)

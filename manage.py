#!/usr/bin/env python
"""Run a management command: `python manage.py help` lists them."""

import sys

from allowance.boot import boot

if __name__ == "__main__":
    boot(sys.argv[1:])
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)

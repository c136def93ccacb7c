"""`manage.py demo [--once] [--port N] [--json FILE]`."""

import os
import sys
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import requests
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from allowance.boot import refuse_incomplete
from workshop.demo.access import AccessFileError
from workshop.demo.ports import PortTakenError
from workshop.demo.processes import ChildEndedError
from workshop.demo.run import run
from workshop.demo.screen import Screen

_LAST_PORT = 65_535


class Command(BaseCommand):
    help = (
        "Start everything on this machine, play a short story over the real HTTP API, and stay up until Ctrl-C. "
        "Data survive in .data, or in the folder that EMBEDDED_DIR names."
    )
    requires_system_checks = ()  # the settings are checked below; other checks load what only the web server needs

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="Exit after the story: 0 if all came as promised.")
        parser.add_argument("--port", type=_port, help="Port of the web server; without it 8000 or the next free one.")
        parser.add_argument(
            "--json", type=Path, metavar="FILE", help="Write addresses and credentials there once everything is up."
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        if not settings.EMBEDDED:
            message = "The demo starts what it needs on this machine only with EMBEDDED=true: run `make demo`."
            raise CommandError(message)
        refuse_incomplete()
        json_file = options["json"] and options["json"].expanduser().absolute()
        try:
            screen = Screen(sys.stdout, _began_at())
            kept = run(screen, port=options["port"], once=options["once"], json_file=json_file)
        except (AccessFileError, PortTakenError, ChildEndedError, TimeoutError) as error:
            raise CommandError(str(error)) from error
        except requests.RequestException as error:
            message = f"The web server did not answer as it should: {error}"
            raise CommandError(message) from error
        if not kept:
            raise SystemExit(1)


def _began_at() -> float | None:
    """Read when `make` was called, which may have installed everything first; None: it was not."""
    text = os.environ.get("DEMO_BEGAN_AT", "")
    return float(text) if text.isdecimal() else None


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= _LAST_PORT:
        message = f"{text} is not a port: 1 to {_LAST_PORT}."
        raise ArgumentTypeError(message)
    return int(text)

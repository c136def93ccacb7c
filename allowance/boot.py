"""The first steps of every process: a command, the web server or a worker."""

import gc
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any

from foundation.environment.configuration import Configuration
from foundation.environment.process_types import EVERY_TYPE, ProcessType, types_of_celery
from foundation.environment.table import is_secret

# These need no database, no broker and no chain, so none is started for them.
_OFFLINE_COMMANDS = {"help", "version", "makemigrations", "check", "setup", "verify_receipt", "spectacular"}
# These report by themselves what is missing: deploy_escrow, for one, runs before there is an escrow.
_CHECKING_COMMANDS = {"deploy_escrow", "doctor", "rotate_keys", "demo"}
# Garbage collection looks at what is new after this many new objects, not 700: that takes a fifth of each start.
NEW_OBJECTS = 50_000
# A process that was started in another way, as tests are, reads everything.
_types = EVERY_TYPE


def boot(arguments: Sequence[str] = ("serve",)) -> None:
    """Determine the process's types, name the settings and, with EMBEDDED=true, start the servers that have no URL.

    `arguments` are those of the web server, of `manage.py`, or `celery` and those of Celery.

    Raises:
        SystemExit: says why those servers cannot be started.
    """
    global _types  # noqa: PLW0603 - a process is started once
    _types = _types_of(arguments)
    gc.set_threshold(NEW_OBJECTS)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "allowance.settings")
    if not _is_offline(arguments) and is_embedded():
        embedded = find_embedded()
        try:
            embedded.start()
        except embedded.LocalnetError as error:
            sys.exit(f"The servers of this machine cannot be started: {error}")


def process_types() -> frozenset[ProcessType]:
    """Return the types that this process was started as."""
    return _types


def refuse_incomplete(arguments: Sequence[str] = ("serve",)) -> None:
    """End what was started with an incomplete configuration, whether or not it has Django's checks run.

    Raises:
        SystemExit: names each variable that is missing or malformed.
    """
    from django.conf import settings  # noqa: PLC0415 - they are read by what the process was started as

    if _is_offline(arguments) or arguments[0] in _CHECKING_COMMANDS:
        return
    if settings.CONFIGURATION_PROBLEMS:
        heading = "The configuration cannot work. See docs/operate/settings.md."
        sys.exit("\n".join([heading, *settings.CONFIGURATION_PROBLEMS]))


def forget_secrets() -> None:
    """Take the secrets out of the environment of a server, which has read its own.

    Web servers hand the environment on with every request, and error pages print that. Commands start other processes,
    which need it.
    """
    if ProcessType.COMMAND not in _types:
        for name in [name for name in os.environ if is_secret(name)]:
            del os.environ[name]


def _types_of(arguments: Sequence[str]) -> frozenset[ProcessType]:
    if [*arguments[:1]] == ["serve"]:
        return frozenset({ProcessType.WEB})
    return types_of_celery(arguments[1:]) if [*arguments[:1]] == ["celery"] else frozenset({ProcessType.COMMAND})


def _is_offline(arguments: Sequence[str]) -> bool:
    """Tell whether a command needs no servers, or prints help.

    Celery always needs them. Only the first two arguments count: further behind, `--help` may be an option's value.
    """
    first, second = [*arguments[:2], "", ""][:2]
    if first == "celery":
        return False
    is_help = not first or bool({"-h", "--help", "--version"} & {first, second})
    return is_help or first in _OFFLINE_COMMANDS


def is_embedded() -> bool:
    """Tell whether servers without a URL are started on this machine."""
    is_set: bool = Configuration().read("EMBEDDED")
    return is_set


def find_embedded() -> Any:
    """Find what starts servers on this machine: a module of the distribution that comes with `make`.

    Raises:
        SystemExit: it is not installed.
    """
    for found in entry_points(group="allowance.embedded"):
        return found.load()
    sys.exit(
        "EMBEDDED is true, but what starts servers on this machine is not installed: install allowance-workshop, as "
        "`make` does, or leave EMBEDDED out and set the variables of docs/operate/settings.md."
    )


def installed_apps() -> list[str]:
    """Name the Django apps that other distributions add to the product's own, such as their commands."""
    return [found.value for found in entry_points(group="allowance.apps")]

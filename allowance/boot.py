"""What every process does first, whoever starts it: a command, the web server or a worker."""

import os
from collections.abc import Sequence

# These need no database, no broker and no chain, so none is started for them.
_OFFLINE_COMMANDS = {"help", "version", "makemigrations", "check", "verify_receipt", "spectacular"}


def boot(arguments: Sequence[str] = ("serve",)) -> None:
    """Name the settings and, with EMBEDDED=true, start what has no URL and is needed for these arguments."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "allowance.settings")
    if not _is_offline(arguments) and is_embedded():
        from allowance import embedded  # noqa: PLC0415 - not installed where it is not used

        embedded.start()


def _is_offline(arguments: Sequence[str]) -> bool:
    if not arguments or {"-h", "--help", "--version"} & {*arguments}:
        return True
    return arguments[0] in _OFFLINE_COMMANDS or [*arguments[:2]] == ["webhooks", "listen"]


def is_embedded() -> bool:
    """Tell whether what has no URL is to be started on this machine."""
    return os.environ.get("EMBEDDED", "").lower() in ("true", "1", "yes", "on")

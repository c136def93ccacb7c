"""The forms of a log line: one for people, and JSON for programs. Both have the ids of what is being worked on."""

import logging
import logging.config
import os
import sys
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from pythonjsonlogger.json import JsonFormatter

from foundation.kernel.version import VERSION
from foundation.telemetry.context import NAMES, current_ids
from foundation.telemetry.known_secrets import hide, hide_everywhere

log = logging.getLogger(__name__)

PLAIN, JSON = "plain", "json"
# The members of a line; whatever else libraries add to a record may hold anything.
_OF_REQUESTS = ("method", "path", "status", "ms", "bytes", "client")
_OF_STEPS = ("state", "escrowId", "eventId", "outcome", "attempt")
_MEMBERS = (
    "time", "level", "logger", "message", *NAMES, *_OF_STEPS, *_OF_REQUESTS,
    "process", "pid", "version", "exception", "stack",
)  # fmt: skip
_NAMES_OF_RECORDS = {
    "levelname": "level",
    "name": "logger",
    "process": "pid",
    "exc_info": "exception",
    "stack_info": "stack",
}


class PlainLine(logging.Formatter):
    """One line for each event, with the traceback below it, and the ids at its end."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - of logging
        # Callers choose some ids, and words of messages: nobody writes a line of their own.
        ids = " ".join(f"{name}={value}" for name, value in _ids_of(record).items())
        return _visible(hide(super().formatMessage(record) + (f" [{ids}]" if ids else "")))

    def format(self, record: logging.LogRecord) -> str:
        return _visible(hide(super().format(record)), besides="\n\t")  # of a traceback, below the line


class JsonLine(JsonFormatter):
    """One JSON object in one line, whatever the message or the traceback has."""

    def __init__(self, process: str) -> None:
        super().__init__(
            ["levelname", "name", "message", "process"],
            rename_fields=_NAMES_OF_RECORDS,
            timestamp="time",
            json_ensure_ascii=False,
        )
        self._of_process = {"process": process, "version": VERSION}

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        known = {**log_data, **self._of_process}
        return {name: hide_everywhere(known[name]) for name in _MEMBERS if known.get(name) is not None}

    def format(self, record: logging.LogRecord) -> str:
        record.__dict__.update(_ids_of(record))
        return super().format(record)


def make_formatter(form: str, process: str) -> logging.Formatter:
    """Make the formatter of a process of a type."""
    return JsonLine(process) if form == JSON else PlainLine()


def make_formatter_of_server() -> logging.Formatter:
    """Make the formatter of the web server's own process, which starts those that know the settings."""
    return make_formatter(os.environ.get("LOG_FORMAT", "").lower(), "web")


def make_formatter_of_mcp() -> logging.Formatter:
    """Make the formatter of `mcp`, which knows no settings."""
    return make_formatter(os.environ.get("LOG_FORMAT", "").lower(), "mcp")


def configure_logging(configuration: dict[str, Any]) -> None:
    """Set logging up, as Django's LOGGING_CONFIG; what ends a process or a thread is an event, too."""
    logging.config.dictConfig(configuration)
    logging.captureWarnings(capture=True)
    if configuration["formatters"]["line"]["form"] == JSON:
        sys.excepthook = _log_end
        threading.excepthook = _log_end_of_thread


def _log_end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    log.critical("The process ended by an error.", exc_info=(kind, error, trace))


def _log_end_of_thread(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_value is not None:
        error = (ended.exc_type, ended.exc_value, ended.exc_traceback)
        log.critical("A thread ended by an error.", exc_info=error)


def _visible(text: str, besides: str = "") -> str:
    """Escape what would begin a line of somebody else's, or what a terminal obeys, but for some characters."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in besides else ascii(one)[1:-1] for one in text)


def _ids_of(record: logging.LogRecord) -> Mapping[str, str]:
    """Return the ids of a line: those that it names itself come before those of the work around it."""
    around = current_ids()
    found = {name: record.__dict__.get(name) or around.get(name) for name in NAMES}
    return {name: str(value) for name, value in found.items() if value}

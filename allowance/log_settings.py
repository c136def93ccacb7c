"""Settings of logging."""

from typing import Any

LOGGING_CONFIG = "foundation.telemetry.log_lines.configure_logging"


def log_settings(level: str, form: str, process: str, *, has_requests: bool) -> dict[str, Any]:
    """Make Django's LOGGING: one line for each event, to the error output, from a level on.

    `form` is plain or json, `process` the name of this process. `has_requests`: each request has a line, too.
    """
    line = {"()": "foundation.telemetry.log_lines.make_formatter", "form": form, "process": process}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": line},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # Refusals are answers, not events: the decision log has them.
            "django.request": {"level": "ERROR"},
            "django.security.DisallowedHost": {"level": "CRITICAL"},
            "allowance.requests": {"level": "INFO" if has_requests else "CRITICAL"},
            # A client's own line for each request would say nothing but an address.
            "httpx": {"level": "WARNING"},
            "httpx2": {"level": "WARNING"},
            # The web server has handlers of its own until here.
            "_granian": {"handlers": [], "propagate": True},
        },
    }

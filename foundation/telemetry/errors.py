"""Report errors to Sentry, if its address is set: an exception with its stack, and what was being worked on.

No local variables, bodies, headers, cookies, queries or addresses of clients; the known secrets are taken out of what
is sent. Without the address, the package is not imported.
"""

from functools import partial
from typing import Any

from foundation.kernel.version import VERSION
from foundation.telemetry.context import current_ids
from foundation.telemetry.known_secrets import hide_everywhere

# What is sent of an event; libraries add more.
_MEMBERS = (
    "event_id", "timestamp", "platform", "level", "logger", "release", "environment", "server_name", "transaction",
    "exception", "logentry", "message", "tags", "fingerprint", "sdk",
)  # fmt: skip
_OF_REQUEST = ("method", "url")


def report_errors(dsn: str, process: str) -> None:
    """Report the errors of this process, and of those that it forks, from now on; `process` is its type."""
    import sentry_sdk  # noqa: PLC0415 - not installed where it is not used
    from sentry_sdk.integrations import atexit, celery, dedupe, django, excepthook, logging, threading  # noqa: PLC0415

    sentry_sdk.init(
        dsn=dsn,
        release=f"allowance@{VERSION}",
        before_send=partial(_reduce, process),
        send_default_pii=False,
        include_local_variables=False,
        max_request_body_size="never",
        max_breadcrumbs=0,
        default_integrations=False,
        auto_enabling_integrations=False,
        integrations=[
            logging.LoggingIntegration(level=None),
            django.DjangoIntegration(middleware_spans=False, signals_spans=False),
            celery.CeleryIntegration(propagate_traces=False),
            excepthook.ExcepthookIntegration(),
            threading.ThreadingIntegration(propagate_scope=False),
            atexit.AtexitIntegration(callback=lambda _pending, _timeout: None),
            dedupe.DedupeIntegration(),
        ],
    )


def _reduce(process: str, event: Any, _hint: Any) -> Any:
    """Leave out of an event what may hold what nobody else is to know."""
    told = {name: event[name] for name in _MEMBERS if name in event}
    request = event.get("request", {})
    told["request"] = {name: request[name].partition("?")[0] for name in _OF_REQUEST if name in request}
    told["tags"] = {"process": process, **current_ids()}
    return hide_everywhere(told)

"""Name what went wrong with an attempt, and describe it in text that can be stored and shown."""

import logging
import ssl

import aiohttp

from services.models import Outcome
from services.webhooks.resolving import BlockedAddress

log = logging.getLogger(__name__)

_DETAIL_LENGTH = 200
# The first that matches a failure, or its cause, names it.
_OUTCOMES: dict[type[Exception], Outcome] = {
    BlockedAddress: Outcome.BLOCKED_ADDRESS,
    TimeoutError: Outcome.TIMEOUT,
    ssl.SSLError: Outcome.TLS,
    aiohttp.ClientSSLError: Outcome.TLS,
    aiohttp.ClientConnectorDNSError: Outcome.DNS,
    aiohttp.ClientError: Outcome.CONNECTION,
    OSError: Outcome.CONNECTION,
}


def explain_failure(error: Exception) -> tuple[Outcome, str]:
    """Name a failure and describe it, in text that can be stored."""
    # aiohttp wraps what it met; its own words repeat the host and show the program's objects.
    cause = getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error
    for kind, outcome in _OUTCOMES.items():
        if isinstance(error, kind) or isinstance(cause, kind):
            return outcome, "No complete answer in time." if outcome == Outcome.TIMEOUT else _describe(cause)
    log.error("An attempt to deliver a webhook ended unexpectedly.", exc_info=error)
    return Outcome.UNKNOWN, f"Ended unexpectedly: {type(error).__name__}."


def _describe(cause: Exception) -> str:
    # What is wrong with an answer that is not HTTP, without the status that aiohttp makes up for it.
    text = cause.message if isinstance(cause, aiohttp.ClientResponseError) else str(cause)
    line = " ".join(text.split()) or type(cause).__name__
    return line.encode(errors="replace").decode().replace("\x00", "\ufffd")[:_DETAIL_LENGTH]

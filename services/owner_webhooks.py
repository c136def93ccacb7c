"""The change by which staff set where an agent's owner is told. It lets nothing be paid: one person is enough."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from foundation.kernel.errors import OperationRefused
from services.webhooks.agent_urls import set_agent_url
from services.webhooks.url_checks import WebhookUrlError, check_webhook_url
from staff.kinds import Argument, Kind


def read_url(text: str) -> str:
    """Read a URL as payees register it.

    Raises:
        OperationRefused: it is none that webhooks may go to.
    """
    try:
        return check_webhook_url(text, allow_loopback=settings.WEBHOOKS_ALLOW_PRIVATE)
    except WebhookUrlError as error:
        raise OperationRefused(f"The webhook URL: {error}") from error


def _set(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    agent, url = arguments["agent"], arguments.get("url")
    set_agent_url(agent, None if url is None else read_url(url), by=by, reason=reason)
    return f"The owner of {agent} is told at {url}." if url else f"The owner of {agent} is told nothing any more."


SET_WEBHOOK = Kind(
    "agent.set_webhook",
    "Set an agent's webhook",
    "policy.change_agent",
    _set,
    takes={
        "agent": Argument("The agent's id."),
        "url": Argument(
            "An https URL of the agent's owner; left out: the owner is told nothing.", read_url, is_needed=False
        ),
    },
)

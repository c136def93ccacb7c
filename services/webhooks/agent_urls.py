"""The URL of an agent, at which its owner is told of payments that a person has to approve. Staff set it."""

from foundation.database import brief_transaction
from foundation.groups import for_agent
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from policy.models import Agent
from services.models import WebhookEndpoint, endpoint_of_agent
from services.webhooks.endpoints import lock_endpoint, move_endpoint
from staff.audit import record

_LONGEST_ID = 128


@for_agent
def set_agent_url(agent_id: str, url: str | None, *, by: str, reason: str = "") -> WebhookEndpoint:
    """Let an agent's owner be told at a URL that `url_checks` lets pass, or not at all; None: the latter.

    What follows for an endpoint that moves is as for payees.

    Raises:
        OperationRefused: there is no such agent, it has this URL, or its id is too long.
    """
    pk = endpoint_of_agent(agent_id)
    with brief_transaction():
        if not Agent.objects.filter(pk=agent_id).exists():
            raise OperationRefused(f"There is no agent {agent_id}.")
        if len(pk) > _LONGEST_ID:
            raise OperationRefused(f"The id of an agent with a webhook has at most {_LONGEST_ID - 1} characters.")
        if url is not None:
            WebhookEndpoint.objects.get_or_create(pk=pk, defaults={"agent_id": agent_id})
        endpoint = lock_endpoint(pk)
        earlier = endpoint.url
        if url == earlier:
            raise OperationRefused(f"That is the webhook URL of {agent_id} already." if url else _none(agent_id))
        endpoint.url = url
        endpoint.save(update_fields=["url"])
        move_endpoint(endpoint, earlier, url, utc_now())
        record(
            "agent.webhook_set", subject_type="agent", subject=agent_id, by=by, reason=reason,
            before={"webhookUrl": earlier}, after={"webhookUrl": url},
        )  # fmt: skip
    return endpoint


def _none(agent_id: str) -> str:
    return f"{agent_id} has no webhook URL."

"""`manage.py set_agent_webhook AGENT URL|--none [--reason R]`: see `change agent.set_webhook`."""

from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand, add_reason
from services.management.secret_output import write_secrets
from services.models import endpoint_of_agent
from services.owner_webhooks import SET_WEBHOOK, read_url
from services.webhooks.operations import reveal_secrets
from staff.commands import takes
from staff.kinds import make


class Command(JsonCommand):
    help = (
        "Set the URL at which an agent's owner is told of payments that a person has to approve: signed webhooks "
        "approval.requested, approval.approved, approval.declined and approval.expired. Prints the signing secret: "
        "hand it to the owner alone. `webhooks secret @AGENT` shows it again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        known = takes(SET_WEBHOOK.name)
        parser.add_argument("agent", help=known["agent"].says)
        url = parser.add_mutually_exclusive_group(required=True)
        url.add_argument("url", nargs="?", help="An https URL of the agent's owner.")
        url.add_argument("--none", action="store_true", help="The owner is told nothing any more.")
        add_reason(parser)

    def perform(self, **options: Any) -> dict[str, Any]:
        agent, url = options["agent"], options["url"]
        arguments = {"agent": agent} if url is None else {"agent": agent, "url": read_url(url)}
        self.stdout.write(make(SET_WEBHOOK.name, arguments, by=AUTHOR, reason=options["reason"]))
        if url is None:
            return {"agent": agent, "url": None, "secrets": []}
        shown = reveal_secrets(endpoint_of_agent(agent), by=AUTHOR, reason=options["reason"])
        return {"agent": agent, "url": url, "secrets": write_secrets(self, shown)}

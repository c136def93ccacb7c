"""The owner of an agent, whose receiver speaks TLS, and the courier that serves it at moments of the test's own."""

import socket

from allowance_client import verify_webhook

from foundation.kernel.times import utc_now
from services.models import WebhookEvent, endpoint_of_agent
from services.webhooks.agent_urls import set_agent_url
from services.webhooks.courier import Courier
from services.webhooks.operations import reveal_secrets
from tests.services.webhooks.attempts import PATIENT_S
from tests.services.webhooks.told import MINUTE, SECOND
from tests.support.factories import decide, make_service
from tests.support.holds import asks_above

HOST = "owner.example"


class Owner:
    """The owner of an agent whose payments above 5 are held, its receiver, and the courier that serves it."""

    def __init__(self, receiver):
        self.receiver, self.addresses = receiver, ["127.0.0.1"]
        self.agent, self.service = asks_above(), make_service()
        self.endpoint = endpoint_of_agent(self.agent.id)
        set_agent_url(self.agent.id, receiver.url(host=HOST), by="ann")
        self.now = utc_now() + MINUTE

    async def lookup(self, host, port):
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.addresses

    def hold(self, amount="6"):
        return decide(self.agent, self.service, amount)

    def deliver(self, *, after=0 * SECOND):
        self.now += after
        return Courier(
            lookup=self.lookup, allow_loopback=True, clock=lambda: self.now, chance=lambda: 0.5, timeout_s=PATIENT_S
        ).deliver()

    def events(self):
        return list(WebhookEvent.objects.filter(agent=self.agent).order_by("id"))

    def read(self, request, **by):
        """Read a request as an owner does."""
        return verify_webhook(dict(request.headers), request.body, agent=self.agent.id, **by)

    def secret(self):
        return next(iter(reveal_secrets(self.endpoint, by="ann")))

"""Payees whose webhook URL moves from one host to another."""

from foundation.kernel.assets import Asset
from services.operations import Registration, register_service
from services.webhooks.operations import reveal_secrets


def register(service, url):
    register_service(Registration(service.id, service.name, service.recipient, Asset(service.asset), url))


def secret_of(service):
    """Ask as finance staff do; there must be one secret, and no other that still signs."""
    (text,) = reveal_secrets(service.id, by="ann")
    return text

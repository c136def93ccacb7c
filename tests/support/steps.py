"""The console's pages that ask for something, to which it leads whoever sent what they ask about."""

from typing import Any

from django.test import Client

from foundation.console.kept import STEP


def follow_step(client: Client, answer: Any) -> Any:
    """Follow an answer to the page that asks, as a browser does; any other answer stays as it is."""
    address = answer.headers.get("Location", "")
    return client.get(address) if f"{STEP}=" in address and "/account/" not in address else answer

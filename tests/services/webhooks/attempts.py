"""Attempts at receivers on this machine, without a database or a courier."""

import asyncio
from uuid import uuid4

from services.webhooks.posting import open_session, send
from services.webhooks.resolving import CheckedResolver, Lookup
from services.webhooks.results import ClaimedDelivery, Result
from tests.services.webhooks.receivers import at_loopback

# What must not time out has long. What must has not; somewhat longer if something has to arrive before.
PATIENT_S, BRIEF_S, HASTY_S = 60.0, 4.0, 0.5


def delivery_to(url: str, body: bytes = b'{"id":"evt_1"}', event_id: str = "evt_1") -> ClaimedDelivery:
    """Make a claim whose secret is 32 times `s`."""
    return ClaimedDelivery(event_id, "shop", url, body, uuid4(), secrets=(b"s" * 32,))


def attempt(url: str, body: bytes = b'{"id":"evt_1"}', **options: object) -> Result:
    """Attempt one delivery; see `attempts`."""
    (result,) = attempts(delivery_to(url, body), **options)  # type: ignore[arg-type]
    return result


def attempts(
    *deliveries: ClaimedDelivery,
    lookup: Lookup = at_loopback,
    allow_loopback: bool = True,
    timeout_s: float = PATIENT_S,
) -> list[Result]:
    """Attempt deliveries one after the other in one session, signed with 64 times `v`."""

    async def work() -> list[Result]:
        async with open_session(CheckedResolver(lookup, allow_loopback=allow_loopback)) as session:
            return [await send(session, one, [lambda _: b"v" * 64], timeout_s) for one in deliveries]

    return asyncio.run(work())

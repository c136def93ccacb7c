"""The courier: claims what is due, attempts it, records what came of it, until nothing is due.

Attempts wait for receivers in one event loop, up to `SLOTS` at the same time; the database is spoken to in between, by
the calling thread, in short transactions. So no receiver, however slow, keeps a connection or another delivery waiting.
"""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import aiohttp
from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings

from allowance.kernel.times import utc_now
from services.webhooks.claims import claim_deliveries
from services.webhooks.records import record_results
from services.webhooks.resolving import CheckedResolver, Lookup, system_lookup
from services.webhooks.results import Result
from services.webhooks.sending import TIMEOUT_S, open_session, send
from services.webhooks.signing import installation_signer

SLOTS = 512
# How many are claimed, and recorded, in one transaction.
_BATCH = 64
# After this the next worker takes over; what is under way is waited for.
_SHIFT_S = 60.0
# While attempts are under way: how soon something new is claimed, and how long results wait for each other.
_POLL_S, _GATHER_S = 0.25, 0.02


@dataclass(frozen=True, slots=True)
class Courier:
    """What attempts need beside the database; tests bring their own."""

    sign: Callable[[bytes], bytes] = field(default_factory=installation_signer)
    lookup: Lookup = system_lookup
    allow_loopback: bool = field(default_factory=lambda: settings.WEBHOOKS_ALLOW_PRIVATE)
    clock: Callable[[], datetime] = utc_now
    chance: Callable[[], float] = random.random
    timeout_s: float = TIMEOUT_S
    shift_s: float = _SHIFT_S

    def deliver(self) -> int:
        """Deliver what is due until nothing is, or the shift ends; returns how many attempts were made."""
        return async_to_sync(self._deliver)()

    async def _deliver(self) -> int:
        under_way: set[asyncio.Task[Result]] = set()
        try:
            async with open_session(CheckedResolver(self.lookup, allow_loopback=self.allow_loopback)) as session:
                return await self._work(session, under_way)
        finally:
            for task in under_way:
                task.cancel()

    async def _work(self, session: aiohttp.ClientSession, under_way: set[asyncio.Task[Result]]) -> int:
        end = time.monotonic() + self.shift_s
        attempts = 0
        while True:
            room = min(SLOTS - len(under_way), _BATCH) if time.monotonic() < end else 0
            claimed = await sync_to_async(claim_deliveries)(room, self.clock()) if room else []
            for delivery in claimed:
                under_way.add(asyncio.create_task(send(session, delivery, self.sign, self.timeout_s)))
            if not under_way:
                return attempts
            is_more_due = 0 < len(claimed) == room
            await asyncio.wait(under_way, timeout=0 if is_more_due else _POLL_S, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(_GATHER_S)
            done = {task for task in under_way if task.done()}
            under_way -= done
            if done:
                attempts += len(done)
                results = sorted((task.result() for task in done), key=lambda one: one.started_at)
                await sync_to_async(record_results)(results, self.clock(), self.chance)

"""The courier claims due deliveries, attempts them and records the results, until nothing is due.

Attempts wait for receivers in one event loop, up to `SLOTS` at the same time; the calling thread uses the database in
between, in short transactions. So no receiver, however slow, holds a connection to it or delays other deliveries.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

import aiohttp
from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings
from django.db import InterfaceError, InternalError, OperationalError, connection

from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.times import utc_now
from foundation.telemetry import traces
from foundation.telemetry.context import note
from policy.webhook_keys import Sign, webhook_signers
from services.models import Outcome
from services.webhooks.claims import CLAIM_LASTS, claim_deliveries
from services.webhooks.posting import TIMEOUT_S, open_session, send
from services.webhooks.records import record_results
from services.webhooks.resolving import CheckedResolver, Lookup, look_up
from services.webhooks.results import ClaimedDelivery, Result
from services.webhooks.spans import tell_attempts

log = logging.getLogger(__name__)
T = TypeVar("T")

SLOTS = 512
# After this, at the latest, a shift claims nothing more and waits for the attempts under way. Long, because a courier
# that waits for its last receivers serves no others meanwhile.
LONGEST_SHIFT_S = 600
# How many are claimed, and recorded, in one transaction: with a quarter of these a courier delivers half as much.
_BATCH = 256
# While attempts are under way: how soon something new is claimed, and how long results wait for each other.
_POLL_S, _GATHER_S = 0.25, 0.02
# The errors of a database that restarts, and how soon it is asked again.
_AWAY, _ASK_AGAIN_S = (OperationalError, InterfaceError, InternalError), 1.0


@dataclass(frozen=True, slots=True)
class Courier:
    """A worker's part that delivers, with all that attempts need beside the database; tests bring their own.

    `lookup` finds the addresses of a host. `is_over` ends the shift before its time.
    """

    signers: Sequence[Sign] = field(default_factory=webhook_signers)
    lookup: Lookup = look_up
    allow_loopback: bool = field(default_factory=lambda: settings.WEBHOOKS_ALLOW_PRIVATE)
    clock: Callable[[], datetime] = utc_now
    chance: Callable[[], float] = random.random
    timeout_s: float = TIMEOUT_S
    shift_s: float = LONGEST_SHIFT_S
    is_over: Callable[[], bool] = lambda: False

    def deliver(self) -> int:
        """Deliver what is due until nothing is, or the shift ends; returns how many attempts were made."""
        return async_to_sync(self._deliver)()

    async def _deliver(self) -> int:
        resolver = CheckedResolver(self.lookup, allow_loopback=self.allow_loopback)
        async with open_session(resolver) as session:
            return await _Shift(self, session).work()


class _Shift:
    """One courier at work, from its first claim to its last result."""

    def __init__(self, courier: Courier, session: aiohttp.ClientSession) -> None:
        self._courier = courier
        self._session = session
        self._under_way: set[asyncio.Task[Result]] = set()
        # Of random length, so that not all couriers wait for their last receivers at the same time.
        self._end = time.monotonic() + courier.shift_s * (1 + courier.chance()) / 2

    async def work(self) -> int:
        """Return how many attempts were made."""
        attempts = 0
        while True:
            room = self._room()
            claimed = await _ask(claim_deliveries, room, self._courier.clock()) if room else []
            self._under_way |= {asyncio.create_task(self._attempt(delivery)) for delivery in claimed}
            if not self._under_way:
                return attempts
            is_more_due = 0 < len(claimed) == room
            results = await self._gather(0 if is_more_due else _POLL_S)
            if results:
                attempts += len(results)
                await self._record(results)
                if traces.is_on():
                    tell_attempts(results)

    def _room(self) -> int:
        if time.monotonic() >= self._end or self._courier.is_over():
            return 0
        return min(SLOTS - len(self._under_way), _BATCH)

    async def _attempt(self, delivery: ClaimedDelivery) -> Result:
        started_at = utc_now()
        note(service=delivery.service, agentId=delivery.agent_id)  # the task's own
        signers = self._courier.signers if delivery.agent_id is None else ()
        try:
            return await send(self._session, delivery, signers, self._courier.timeout_s)
        except Exception as error:
            # A bug that this event met: the others go on, and this one gets its next attempts.
            log.exception("An attempt at %s ended unexpectedly.", delivery.event_id)
            detail = f"Ended unexpectedly: {type(error).__name__}."
            return Result(delivery, started_at, duration_ms=0, outcome=Outcome.UNKNOWN, detail=detail)

    async def _gather(self, patience_s: float) -> list[Result]:
        """Take the results of attempts that have ended, in the order in which they did."""
        await asyncio.wait(self._under_way, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(_GATHER_S)
        done = {task for task in self._under_way if task.done()}
        self._under_way -= done
        return sorted((task.result() for task in done), key=_ended_at)

    async def _record(self, results: Sequence[Result]) -> None:
        """Record results; one that cannot be recorded does not keep the others from it, and its claim lapses."""
        try:
            await _ask(record_results, results, self._courier.clock(), self._courier.chance)
        except _AWAY:
            raise
        except Exception:
            if len(results) == 1:
                log.exception("The result of %s cannot be recorded.", results[0].delivery.event_id)
                return
            for result in results:
                await self._record([result])


def _ended_at(result: Result) -> datetime:
    return result.started_at + timedelta(milliseconds=result.duration_ms)


async def _ask(query: Callable[..., T], *arguments: object) -> T:
    """Ask the database, again while it is away: deliveries were made that are not recorded yet.

    Raises:
        OperationalError, InterfaceError, InternalError: it was away until all claims had lapsed.
    """
    give_up = time.monotonic() + CLAIM_LASTS.total_seconds()
    while True:
        try:
            return await sync_to_async(query)(*arguments)
        except _AWAY as error:
            if time.monotonic() >= give_up:
                raise
            log_once_a_minute(log, logging.WARNING, "The database is away: %s", type(error).__name__)
        await sync_to_async(_disconnect)()
        await asyncio.sleep(_ASK_AGAIN_S)


def _disconnect() -> None:
    # Looked up in the thread that asks: each has a connection of its own.
    connection.close()

"""Where one scenario is played: its agents and payees, the clients that ask, and all that they are told."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from foundation.kernel.assets import Asset
from services.models import Service
from tests.overspend.answers import Told
from tests.overspend.evidence import Account, Kind, Limits, Problem
from tests.overspend.world import World
from tests.support.factories import make_agent, make_api_key, make_service, new_name
from tests.support.servers import Servers
from tests.support.storms import Answer, Shot, Storm

_PATIENCE_S = 120
_PAUSE_S = 0.3
# Clients of a storm: processes of several threads each.
_PROCESSES, _THREADS = 3, 8
_PLENTY = "5000"


@dataclass(frozen=True, slots=True)
class Payer:
    """An agent with the payee that it pays and the key that it pays with, which is bound to it."""

    account: Account
    service: Service
    api_key: str
    asset: Asset

    def shot(self, amount: str = "1.00", *, key: str | None = None, asset: str | None = None) -> Shot:
        """Make a request of its own; where it goes is decided when it is sent."""
        body = {
            "agentId": self.account.agent,
            "service": self.service.id,
            "amount": amount,
            "asset": asset or str(self.asset),
            "reason": "overspend test",
        }
        return Shot("", self.api_key, key or new_name("key"), body)

    def allow(self, *, day: str, since: datetime) -> None:
        """Note that its daily limit is another one for whatever is decided later."""
        self.account.limits.append(replace(self.account.limits[-1], day=Decimal(day), since=since))

    def close(self) -> None:
        """Note that nothing of it may pass that is sent from now on."""
        self.account.closed_at = time.monotonic()


class Stage:
    """One scenario while it is played. `processes` counts the web processes that take part."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.chance = world.chance
        self.payers: list[Payer] = []
        self.told: list[Told] = []
        self.seen: list[Problem] = []
        self.processes = 0
        self.use(world.fleet)

    def use(self, *servers: Servers) -> None:
        """Send what comes to these servers, in turn."""
        urls = [url for one in servers for url in one.urls]
        self.processes = max(self.processes, len(urls) * Servers.PROCESSES_EACH)
        self._urls = itertools.cycle(self.chance.sample(urls, k=len(urls)))

    def payer(
        self,
        *,
        day: str,
        week: str = _PLENTY,
        payment: str = "10",
        balance: str = _PLENTY,
        asset: Asset = Asset.USDC,
        service: Service | None = None,
        wanted: str | None = None,
        is_flooder: bool = False,
        **more: Any,
    ) -> Payer:
        """Make an agent with a payee of its own. `wanted`: what it is to have spent in the end, by asking for more.

        `more` are optional limits, which let no more than that pass.
        """
        agent = make_agent(
            asset=asset, max_per_payment=payment, daily_limit=day, weekly_limit=week, balance=balance, **more
        )
        total = None if wanted is None else Decimal(wanted)
        most = Decimal(_PLENTY) if total is None or not more else total
        limits = Limits(Decimal(payment), Decimal(day), min(Decimal(week), Decimal(balance), most))
        account = Account(agent.id, str(asset), [limits], wanted=total, is_flooder=is_flooder)
        payer = Payer(account, service or make_service(asset=asset), make_api_key(agent=agent), asset)
        self.payers.append(payer)
        return payer

    def storm(self, shots: Sequence[Shot], on_ready: Callable[[], None] = lambda: None) -> Iterator[Answer]:
        """Send all at once from several client processes, in a random order; yields the answers as they come."""
        aimed = [replace(shot, url=next(self._urls)) for shot in self.chance.sample(shots, k=len(shots))]
        storm = Storm(aimed, min(_PROCESSES, 1 + len(aimed) // _THREADS), _THREADS, on_ready)
        return self._record(storm, aimed)

    def strike(self, shots: Sequence[Shot]) -> list[Answer]:
        """Let a storm pass."""
        return list(self.storm(shots))

    def insist(self) -> None:
        """Send what has no final answer again, under the same keys and to other servers, until it has one."""
        deadline = time.monotonic() + _PATIENCE_S
        while (waiting := self._find_waiting()) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
            self.strike(waiting)

    def repeat(self, count: int) -> None:
        """Send some of what was decided again: the answers must be the same."""
        decided = {(told.agent, told.key): told.shot for told in self.told if told.is_final and not told.is_conflict}
        self.strike(self.chance.sample(list(decided.values()), k=min(count, len(decided))))

    def complain(self, kind: Kind, sentence: str) -> None:
        """Note something that only this scenario can see."""
        self.seen.append((kind, sentence))

    def expect(self, fact: object, sentence: str) -> None:
        """Note that the scenario shows nothing unless this is a fact."""
        if not fact:
            self.complain(Kind.UNFIT, sentence)

    def _record(self, storm: Storm, aimed: Sequence[Shot]) -> Iterator[Answer]:
        for answer in storm:
            self.told.append(Told(aimed[answer.index], answer))
            yield answer

    def _find_waiting(self) -> list[Shot]:
        flooders = {payer.account.agent for payer in self.payers if payer.account.is_flooder}
        waiting: dict[tuple[str, str, str], Shot] = {}
        for told in self.told:
            if not told.is_final and told.agent not in flooders:
                waiting[told.question] = told.shot
        for told in self.told:
            if told.is_final:
                waiting.pop(told.question, None)
        return list(waiting.values())

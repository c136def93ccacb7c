"""All that a run consists of, and what every fault does with it."""

import random
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.crash.clients import Agent, Clients
from tests.crash.depositor import Depositor
from tests.crash.installation import Installation, wait_until
from tests.crash.localnets import Localnet
from tests.crash.processes import WEBS, WORKERS, CrashHouse
from tests.crash.proxy import Proxy
from tests.crash.rules import Hold, Rule
from tests.crash.thief_process import Thief
from tests.services.webhooks.receivers import Receiver

_BLOCKED = """
    SELECT application_name FROM pg_stat_activity
     WHERE %s = ANY (pg_blocking_pids(pid)) AND application_name = ANY (%s) AND query ILIKE %s
"""
_HAS_LOCKED_NONE = """
       AND NOT EXISTS (SELECT FROM pg_locks WHERE pg_locks.pid = pg_stat_activity.pid AND relation = %s::regclass
                          AND mode <> 'AccessShareLock')
"""
_AT_WORK = "SELECT count(*) FROM pg_stat_activity WHERE application_name = ANY (%s) AND state <> 'idle'"
LET_GO = "UPDATE payments_duty SET held_until = now()"


@dataclass(frozen=True, slots=True)
class Network:
    """A chain with what stands around it: the addresses of its node, who pays on it, the first one can afford all."""

    localnet: Localnet
    proxies: Sequence[Proxy]
    agents: Sequence[Agent]
    depositor: Depositor

    @contextmanager
    def misbehaving(self, rule: Rule) -> Iterator[None]:
        """Let all its nodes misbehave while the block runs."""
        with ExitStack() as stack:
            for proxy in self.proxies:
                stack.enter_context(proxy.rules(rule))
            yield

    def shown(self, rule: Rule) -> int:
        """Count how often a rule has shown, at all nodes."""
        return sum(proxy.applied[rule.name] for proxy in self.proxies)


@dataclass(frozen=True, slots=True)
class World:
    """Everything of one run. `networks` by the chain's alias; `payees` are told; `chance` is the faults' own."""

    installation: Installation
    house: CrashHouse
    clients: Clients
    networks: Mapping[str, Network]
    payees: Receiver
    thief: Thief
    chance: random.Random

    @property
    def proxies(self) -> Sequence[Proxy]:
        return [proxy for network in self.networks.values() for proxy in network.proxies]

    def wait_for_approvals(self, count: int, agents: Sequence[Agent] = ()) -> None:
        """Wait until so many more payments are approved, of all agents unless some are named."""
        wanted = self.clients.count_approved(agents) + count
        self.wait_until(lambda: self.clients.count_approved(agents) >= wanted, f"{count} more payments are approved")

    def wait_until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait for something that processes do; one that ends by itself meanwhile is started again."""

        def is_so() -> Any:
            self.house.revive()
            return condition()

        return wait_until(is_so, what)

    def crash(self, name: str) -> None:
        """Kill a process of the product and start it again. Its leases are free at once: they guard nothing."""
        self.house.kill(name)
        self.house.again(name)
        self.installation.execute(LET_GO)

    def crash_at_call(self, network: Network, methods: Sequence[str], *, is_before: bool) -> str:
        """Kill whoever waits for an answer to these methods, which the node got or did not get; returns its name."""
        with self.holding(network, Hold(methods, is_before)) as hold:
            self.house.kill(hold.client)
        self.house.again(hold.client)
        self.installation.execute(LET_GO)
        return hold.client

    @contextmanager
    def holding(self, network: Network, hold: Hold) -> Iterator[Hold]:
        """Wait until the answer is held, and hold it while the block runs."""
        with ExitStack() as stack:
            for proxy in network.proxies:
                stack.enter_context(proxy.holding(hold))
            self.wait_until(hold.reached.is_set, f"somebody asks {' and '.join(hold.methods)}")
            yield hold

    def crash_at_lock(self, lock: str, names: Sequence[str], statement: str = "") -> str:
        """Kill whoever waits for a lock of ours in the middle of its transaction; returns its name.

        `statement`: with what a statement begins that is waited in.
        """
        with self.waiting(lock, names, statement) as victim:
            self.house.kill(victim)
        self.house.again(victim)
        self.installation.execute(LET_GO)
        return victim

    @contextmanager
    def waiting(
        self,
        lock: str,
        names: Sequence[str],
        statement: str = "",
        *,
        unlocked: str = "",
    ) -> Iterator[str]:
        """Take a lock, and hold it while the block runs, once somebody waits for it; yields its name.

        `unlocked`: a table of which the waiting transaction has locked no row.
        """
        with self.installation.session() as session:
            session.execute(lock.encode())
            wanted = (list(names), f"{statement}%")
            blocked = _BLOCKED + (_HAS_LOCKED_NONE if unlocked else "")
            find = partial(self.installation.execute, blocked, session.info.backend_pid, *wanted)
            if unlocked:
                find = partial(find, unlocked)
            yield str(self.wait_until(find, f"somebody waits for: {lock}")[0][0])

    @contextmanager
    def frozen_workers(self) -> Iterator[None]:
        """Stop the workers where they stand, in no transaction, while the block runs."""
        wait_until(self._freeze, "the workers are in no transaction")
        try:
            yield
        finally:
            self.house.signal(signal.SIGCONT, *WORKERS)

    def _freeze(self) -> bool:
        self.house.revive()
        self.house.signal(signal.SIGSTOP, *WORKERS)
        if self.installation.execute(_AT_WORK, list(WORKERS))[0][0] == 0:
            return True
        self.house.signal(signal.SIGCONT, *WORKERS)
        return False

    def some_web(self) -> str:
        return self.chance.choice(WEBS)

"""All that a run consists of, and what every fault does with it."""

import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.crash.clients import Agent, Clients
from tests.crash.depositor import Depositor
from tests.crash.installation import Installation, wait_until
from tests.crash.processes import WEBS, WORKERS, Processes
from tests.crash.proxy import Proxy
from tests.crash.rules import Hold, Rule

_BLOCKED = """
    SELECT application_name FROM pg_stat_activity
     WHERE %s = ANY (pg_blocking_pids(pid)) AND application_name = ANY (%s) AND query ILIKE %s
"""
_AT_WORK = "SELECT count(*) FROM pg_stat_activity WHERE application_name = ANY (%s) AND state <> 'idle'"
LET_GO = "UPDATE payments_duty SET held_until = now()"


@dataclass(frozen=True, slots=True)
class World:
    """Everything of one run. `chance` is the faults' own; `agents` are those that can afford what they want."""

    installation: Installation
    proxies: Sequence[Proxy]
    processes: Processes
    clients: Clients
    depositor: Depositor
    agents: Sequence[Agent]
    chance: random.Random

    def wait_for_approvals(self, count: int) -> None:
        """Wait until so many more payments are approved."""
        wanted = self.clients.count_approved() + count

        def is_enough() -> bool:
            self.processes.revive()
            return self.clients.count_approved() >= wanted

        wait_until(is_enough, f"{count} more payments are approved")

    def crash(self, name: str) -> None:
        """Kill a process of the product and start it again. Its duties are free at once: they guard nothing."""
        self.processes.kill(name)
        self.processes.start(name)
        self.installation.execute(LET_GO)

    def crash_at_call(self, method: str, *, is_before: bool) -> str:
        """Kill whoever waits for the answer to a call, which the node got or did not get; returns its name."""
        with self.holding(Hold(method, is_before)) as hold:
            self.processes.kill(hold.client)
        self.processes.start(hold.client)
        self.installation.execute(LET_GO)
        return hold.client

    @contextmanager
    def holding(self, hold: Hold) -> Iterator[Hold]:
        """Wait until the answer is held, and hold it while the block runs."""
        with ExitStack() as stack:
            for proxy in self.proxies:
                stack.enter_context(proxy.holding(hold))
            wait_until(hold.reached.is_set, f"somebody asks {hold.method}")
            yield hold

    def crash_at_lock(self, lock: str, names: Sequence[str], statement: str = "") -> str:
        """Kill whoever waits for a lock of ours in the middle of its transaction; returns its name.

        `statement`: with what a statement begins that is waited in.
        """
        with self.installation.session() as session:
            session.execute(lock.encode())
            question = (session.info.backend_pid, list(names), f"{statement}%")
            rows = wait_until(lambda: self.installation.execute(_BLOCKED, *question), f"somebody waits for: {lock}")
            victim = str(rows[0][0])
            self.processes.kill(victim)
        self.processes.start(victim)
        self.installation.execute(LET_GO)
        return victim

    @contextmanager
    def frozen_workers(self) -> Iterator[None]:
        """Stop the workers where they stand, in no transaction, while the block runs."""
        wait_until(self._freeze, "the workers are in no transaction")
        try:
            yield
        finally:
            self.processes.signal(WORKERS, signal.SIGCONT)

    def _freeze(self) -> bool:
        self.processes.signal(WORKERS, signal.SIGSTOP)
        if self.installation.execute(_AT_WORK, list(WORKERS))[0][0] == 0:
            return True
        self.processes.signal(WORKERS, signal.SIGCONT)
        return False

    @contextmanager
    def misbehaving(self, proxies: Sequence[Proxy], rule: Rule) -> Iterator[None]:
        """Let nodes misbehave while the block runs."""
        with ExitStack() as stack:
            for proxy in proxies:
                stack.enter_context(proxy.rules(rule))
            yield

    def shown(self, rule: Rule) -> int:
        """Count how often a rule has shown, at all nodes."""
        return sum(proxy.applied[rule.name] for proxy in self.proxies)

    def some_web(self) -> str:
        return self.chance.choice(WEBS)

"""Whoever funds the agents of a chain: deposits into the escrow, on chain, that are sent again until they are final."""

import random
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from foundation.kernel.assets import Asset
from tests.crash.clients import Agent
from tests.crash.installation import wait_until

# Nobody has this name: its money is put aside.
STRANGER = "nobody-we-know"
_RESEND_S = 0.5
# In hundredths of an asset.
_MOST_AT_ONCE = 2_000


class Wallet(Protocol):
    """An account that has plenty of everything, outside of the product."""

    def deposit(self, agent: str, asset: Asset, units: int) -> None:
        """Offer a deposit once, in base units."""

    def insist(self) -> bool:
        """Offer again what is not final; tells whether all is."""


class Depositor:
    """Deposits for agents, and for a stranger, all the while. Every deposit arrives in the end."""

    def __init__(self, wallet: Wallet, agents: Sequence[Agent], seed: int) -> None:
        self.made: Counter[tuple[str, Asset]] = Counter()
        self._wallet = wallet
        self._chance = random.Random(seed)
        self._assets = {agent.id: agent.asset for agent in agents}
        self._using = threading.Lock()
        self._has_enough = threading.Event()
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._run), threading.Thread(target=self._insist)]

    def deposit(self, agent: str, asset: Asset, units: int) -> None:
        """Deposit base units for an agent."""
        self.made[agent, asset] += units
        with self._using:
            self._wallet.deposit(agent, asset, units)

    def start(self) -> None:
        """Deposit something for somebody now and then, and see to it that all arrives."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Deposit no more; returns when all is final."""
        self._has_enough.set()
        try:
            wait_until(self._is_all_final, "the deposits are final")
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Deposit no more, and leave what is not final."""
        self._has_enough.set()
        self._is_over.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _run(self) -> None:
        assets = sorted(set(self._assets.values()))
        while not self._has_enough.wait(self._chance.uniform(0.5, 2)):
            agent = self._chance.choice([*self._assets, STRANGER])
            asset = self._assets.get(agent) or self._chance.choice(assets)
            self.deposit(agent, asset, self._chance.randint(1, _MOST_AT_ONCE * 10 ** (asset.decimals - 2)))

    def _insist(self) -> None:
        while not self._is_over.wait(_RESEND_S):
            self._is_all_final()

    def _is_all_final(self) -> bool:
        with self._using:
            return self._wallet.insist()

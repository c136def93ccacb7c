"""Whoever waits for a block makes one: commands sleep while a chain goes on by itself, and tests need not."""

import time
from collections.abc import Sequence
from types import ModuleType

import pytest
import requests
from django.conf import settings

from owner import rotations
from owner.evm import sending as evm_sending
from owner.management.commands import deposit, withdraw_funds
from owner.solana import depositing
from owner.solana import sending as solana_sending
from tests.support.localnets import LOCALNETS

# All that wait for a chain in the process of whoever asks.
WAITING: Sequence[ModuleType] = (evm_sending, solana_sending, depositing, rotations, deposit, withdraw_funds)
_A_MOMENT_S = 0.01


class Hurry:
    """Stand in for the module `time` where somebody waits for a chain: a pause makes a block on each."""

    monotonic = staticmethod(time.monotonic)

    def __init__(self) -> None:
        # A test may configure other nodes, or none, while somebody waits.
        self._nodes = [(settings.CHAINS[localnet.caip2].rpc_urls[0], localnet.mines_by) for localnet in LOCALNETS]

    def sleep(self, _: float) -> None:
        for url, method in self._nodes:
            requests.post(url, json={"jsonrpc": "2.0", "id": 1, "method": method, "params": []}, timeout=30)
        time.sleep(_A_MOMENT_S)


def hurry(patch: pytest.MonkeyPatch) -> None:
    """Let nobody in this process sleep while waiting for a block."""
    stand_in = Hurry()
    for module in WAITING:
        patch.setattr(module, "time", stand_in)

"""Whoever funds the agents: deposits into the escrow, on chain, that are sent again until they are final."""

import random
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eth_account import Account

from allowance.embedded import rpc
from allowance.embedded.errors import EmbeddedError
from tests.chains import call, escrow, token
from tests.crash.installation import Installation, wait_until

CHAIN_ID = 31_337
# Nobody has this name: its money is put aside.
STRANGER = "nobody-we-know"
_GAS = 250_000
_GWEI = 10**9
_UNITS = 10**6
_PLENTY = 10**15
_RESEND_S = 0.5


@dataclass(frozen=True, slots=True)
class Sent:
    """A transaction of the depositor's. `agent` is "" if it is no deposit; `units` are base units."""

    tx: str
    raw: str
    agent: str = ""
    units: int = 0


class Depositor:
    """The deployer of the contracts: it mints, approves and deposits."""

    def __init__(self, installation: Installation) -> None:
        self._node_url = installation.node_url
        self._account = Account.from_key(installation.folder.keys()["EVM_DEPLOYER_KEY"])
        self._sending = threading.Lock()
        self._has_enough = threading.Event()
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []
        self.sent: list[Sent] = []
        self._first_nonce = int(self._ask("eth_getTransactionCount", self._account.address, "latest"), 16)
        self._send(token(), call("mint(address,uint256)", self._account.address, _PLENTY))
        self._send(token(), call("approve(address,uint256)", escrow(), _PLENTY))

    def deposit(self, agent: str, units: int) -> None:
        """Deposit base units of USDC for an agent."""
        self._send(escrow(), call("deposit(string,address,uint256)", agent, token(), units), agent, units)

    def start(self, agents: Sequence[str], seed: int) -> None:
        """Deposit something for somebody now and then, and see to it that all arrives."""
        chance = random.Random(seed)
        self._threads = [
            threading.Thread(target=self._run, args=([*agents, STRANGER], chance)),
            threading.Thread(target=self._insist),
        ]
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
            thread.join()

    @property
    def by_agent(self) -> dict[str, int]:
        """What was deposited for each, in base units."""
        total: Counter[str] = Counter()
        for one in self.sent:
            if one.agent:
                total[one.agent] += one.units
        return dict(total)

    def _run(self, agents: Sequence[str], chance: random.Random) -> None:
        while not self._has_enough.wait(chance.uniform(0.5, 2)):
            self.deposit(chance.choice(agents), chance.randint(1, 20 * _UNITS))

    def _insist(self) -> None:
        while not self._is_over.wait(_RESEND_S):
            for one in self._not_final():
                self._offer(one)

    def _not_final(self) -> list[Sent]:
        """Find what is not in a final block; all if the node is away."""
        sent = list(self.sent)
        try:
            final = int(self._ask("eth_getTransactionCount", self._account.address, "finalized"), 16)
        except (OSError, EmbeddedError):
            return sent
        return sent[max(0, final - self._first_nonce) :]

    def _is_all_final(self) -> bool:
        return not self._not_final()

    def _send(self, to: str, data: str, agent: str = "", units: int = 0) -> None:
        with self._sending:
            signed = self._account.sign_transaction(
                {
                    "chainId": CHAIN_ID,
                    "nonce": self._first_nonce + len(self.sent),
                    "gas": _GAS,
                    "maxFeePerGas": 1000 * _GWEI,
                    "maxPriorityFeePerGas": _GWEI,
                    "to": to,
                    "data": data,
                }
            )
            one = Sent("0x" + signed.hash.hex(), "0x" + signed.raw_transaction.hex(), agent, units)
            self.sent.append(one)
        self._offer(one)

    def _offer(self, one: Sent) -> None:
        # Known already, or the node is away: it is offered again until it is final.
        try:
            self._ask("eth_sendRawTransaction", one.raw)
        except (OSError, EmbeddedError):
            return

    def _ask(self, method: str, *parameters: Any) -> Any:
        return rpc.request(self._node_url, method, *parameters, timeout_s=10)

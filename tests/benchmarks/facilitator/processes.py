"""x402's facilitator on a node of anvil's: how many payments per second it settles.

A payment is an EIP-3009 authorization that its payer signed before the clock starts. The facilitator is asked for
`/settle` alone: that verifies as well, and `/verify` before it, as a resource server asks, would only cost it more. It
sends `transferWithAuthorization` from its account and answers when that is in a block; the product waits for two blocks
more. Whoever asks waits for the answer, so that a connection is good for no more than one payment per block: it takes
many of them, each with a thread behind it, until processors are what is short.

Each process has an account of its own, because the package counts nonces in its process.
"""

import itertools
import json
import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils.address import to_checksum_address

from tests.benchmarks.facilitator.packages import install
from tests.benchmarks.load import Load, Make, converse
from tests.chains.contracts.world import read_artifact
from tests.support.evm_escrow import call
from tests.support.factories import new_address
from workshop.localnet import rpc

UNITS = 10_000
_TOKEN = Path(__file__).parents[2] / "chains/contracts/solidity/Erc3009Token.json"
_DOMAIN = {"name": "USD Coin", "version": "2"}
_AUTHORIZATION = {
    "TransferWithAuthorization": [
        {"name": "from", "type": "address"},
        {"name": "to", "type": "address"},
        {"name": "value", "type": "uint256"},
        {"name": "validAfter", "type": "uint256"},
        {"name": "validBefore", "type": "uint256"},
        {"name": "nonce", "type": "bytes32"},
    ]
}
_SERVER = Path(__file__).parent / "server.py"
# However the benchmark ends, killed or not; anvil is there on Linux alone, too.
_WITH_US = ("setpriv", "--pdeathsig", "KILL")
_COINS_WEI = 10**21
_PLENTY_UNITS = 10**12
_VALID_S = 3600
_PAYERS = 50
_GAS = 8_000_000
_PATIENCE_S = 30
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Payments:
    """Signed payments to one payee, as requests."""

    payee: str
    requests: Sequence[bytes]


class Facilitators:
    """Processes of the facilitator, and payers with tokens that know EIP-3009.

    `connections`: payments that all processes together settle at once, at most.

    Raises:
        PackagesUnavailable: x402 cannot be installed.
    """

    def __init__(self, url: str, *, processes: int = 2, connections: int = 128) -> None:
        self._python = install()
        self._url = url
        self._chain_id = int(self._ask("eth_chainId"), 16)
        self._processes, self._connections = processes, connections
        self._payers: list[LocalAccount] = [Account.create() for _ in range(_PAYERS)]
        self._token = self._send(None, read_artifact(_TOKEN)["bytecode"])["contractAddress"]
        owners = [payer.address for payer in self._payers]
        self._send(self._token, call("mint(address[],uint256)", owners, _PLENTY_UNITS))

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._ports = [self._start(stack) for _ in range(self._processes)]
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def time_settlements(self, count: int, connections: int | None = None) -> float:
        """Let so many payments be settled; return payments per second. `connections`: if less than all.

        Raises:
            RuntimeError: one was not settled, or the payee does not have the money.
        """
        payments = self.sign(count)
        load = self.settle(payments, connections)
        if self.balance_of(payments.payee) != count * UNITS:
            raise RuntimeError("x402 says of a payment that it is settled, and it is not.")
        return load.rate

    def sign(self, count: int) -> "Payments":
        """Sign payments to a new payee, by the payers in turn, and write the requests for them."""
        payee = to_checksum_address(new_address())
        requirements = {
            "scheme": "exact",
            "network": self._network,
            "asset": self._token,
            "amount": str(UNITS),
            "payTo": payee,
            "maxTimeoutSeconds": _VALID_S,
            "extra": _DOMAIN,
        }
        payers = itertools.islice(itertools.cycle(self._payers), count)
        return Payments(payee, [_request(requirements, self._authorize(payer, payee)) for payer in payers])

    def settle(self, payments: "Payments", connections: int | None = None) -> Load:
        """Ask for all of them, over all connections or so many of them.

        Raises:
            RuntimeError: one was not settled; shows the answer.
        """
        messages = iter(payments.requests)
        makes: list[Make] = [lambda _: next(messages)] * (connections or self._connections)
        return converse(self._ports, makes, count=len(payments.requests), status=200)

    def balance_of(self, owner: str) -> int:
        wanted = {"to": self._token, "data": call("balanceOf(address)", owner)}
        return int(self._ask("eth_call", wanted, "latest"), 16)

    # --- The processes ------------------------------------------------------------------------------------------------
    def _start(self, stack: ExitStack) -> int:
        """Start a process with an account of its own; return its port."""
        account: LocalAccount = Account.create()
        self._ask("anvil_setBalance", account.address, hex(_COINS_WEI))
        environment = {
            "PATH": os.defpath,
            "RPC_URL": self._url,
            "PRIVATE_KEY": "0x" + bytes(account.key).hex(),
            "NETWORK": self._network,
            "THREADS": str(self._connections),
        }
        # -I: none of our modules hides one of theirs.
        command: list[str | Path] = [*_WITH_US, self._python, "-I", _SERVER]
        process = stack.enter_context(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        stack.callback(process.kill)  # nothing of it is kept
        assert process.stdout
        port = process.stdout.readline()
        if not port:
            raise RuntimeError("x402's facilitator did not start; it has written why.")
        return int(port)

    def _authorize(self, payer: LocalAccount, payee: str) -> dict[str, Any]:
        authorization = {
            "from": payer.address,
            "to": payee,
            "value": UNITS,
            "validAfter": 0,
            "validBefore": int(time.time()) + _VALID_S,
            "nonce": "0x" + os.urandom(32).hex(),
        }
        domain = {**_DOMAIN, "chainId": self._chain_id, "verifyingContract": self._token}
        signed = payer.sign_typed_data(domain, _AUTHORIZATION, authorization)
        said = {name: str(value) for name, value in authorization.items()}
        return {"authorization": said, "signature": signed.signature.to_0x_hex()}

    # --- The node -----------------------------------------------------------------------------------------------------
    @property
    def _network(self) -> str:
        return f"eip155:{self._chain_id}"

    def _send(self, to: str | None, data: str) -> Any:
        """Send a transaction of anvil's first account, which it signs for itself; return the receipt."""
        transaction = {"from": self._ask("eth_accounts")[0], "gas": hex(_GAS), "data": data}
        sent = self._ask("eth_sendTransaction", transaction | ({"to": to} if to else {}))
        deadline = time.monotonic() + _PATIENCE_S
        while not (receipt := self._ask("eth_getTransactionReceipt", sent)):
            if time.monotonic() > deadline:
                raise RuntimeError("Anvil makes no blocks.")
            time.sleep(_POLL_S)
        if not int(receipt["status"], 16):
            raise RuntimeError(f"A transaction failed: {receipt}")
        return receipt

    def _ask(self, method: str, *params: Any) -> Any:
        return rpc.request(self._url, method, *params)


def _request(requirements: dict[str, Any], payload: dict[str, Any]) -> bytes:
    payment = {"x402Version": 2, "payload": payload, "accepted": requirements}
    body = json.dumps({"x402Version": 2, "paymentPayload": payment, "paymentRequirements": requirements}).encode()
    head = "POST /settle HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

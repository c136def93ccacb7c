"""An escrow that authorizes payees, on a node of anvil's, and a shop with x402's own facilitator beside it."""

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import requests
from django.conf import settings
from eth_account import Account

from chains.catalogue import ServedChain, find_chain
from chains.evm.adapter import EvmChain
from foundation.environment.keys import held_key
from foundation.kernel.assets import Asset
from payments.reconciling.escrow_history import search_history
from payments.reconciling.watcher import observe
from payments.settling.expired_authorizations import give_back_expired
from services.served_chains import configured_roles
from tests.benchmarks.facilitator.packages import install
from tests.chains.adapter.anvil_node import FUNDED_KEY
from tests.chains.adapter.evm_deployment import EvmDeployment
from tests.chains.contracts.world import read_artifact
from tests.support.evm_escrow import call

CHAIN = find_chain("base-sepolia")
NETWORK = "eip155:84532"
# Two blocks more make a block final, and there is one each second.
ANVIL = ("--block-time", "1", "--chain-id", "84532")
MOST_UNITS = 5_000_000
RELAYERS = 2
_TOKEN = read_artifact(Path(__file__).parents[2] / "chains/contracts/solidity/Erc3009BytesToken.json")
_SERVER = Path(__file__).parent / "resource_server.py"
_WITH_US = ("setpriv", "--pdeathsig", "KILL")
_COINS_WEI = hex(10**21)


class X402Deployment(EvmDeployment):
    """Has a token like USDC; the escrow knows this installation's policy signer and relayers."""

    def __init__(self, url: str) -> None:
        super().__init__(url, FUNDED_KEY)
        assert CHAIN is not None
        self.served = ServedChain(CHAIN, (url,), self.escrow, {Asset.USDC: self.token})
        self.chain = self._connect()
        signer = configured_roles().policy_signer
        self.as_owner((self.escrow, call("setPolicySigner(address)", signer)), *self._relayer_calls())
        self.limit(MOST_UNITS)

    @property
    def token(self) -> str:
        return self.tokens[Asset.USDC]

    def limit(self, most: int, reserve: int = 0) -> None:
        """Set what the escrow authorizes at once."""
        set_limits = "setAuthorizationLimits(address,uint256,uint256)"
        self.as_owner((self.escrow, call(set_limits, self.token, most, reserve)))

    def is_used(self, escrow_id: str) -> bool:
        data = call("authorizationState(address,bytes32)", self.escrow, bytes.fromhex(escrow_id[2:]))
        return bool(self.number("eth_call", {"to": self.token, "data": data}, "latest"))

    def look(self) -> None:
        """Let the watcher look at the chain: what happened in final blocks, then the state to sign from."""
        search_history(NETWORK, self.chain)
        observe(NETWORK, self.chain)

    def give_back(self) -> int:
        return give_back_expired(NETWORK, self.chain)

    def forget(self) -> None:
        """Begin the escrow's history here: what went before is of tests whose rows are gone."""
        self.served = replace(self.served, first_block=self.height + 1)
        self.chain = self._connect()
        self.rpc("anvil_mine", hex(3))

    def _connect(self) -> EvmChain:
        return EvmChain.of(self.served, held_key("RELAYER_SEED"), policy_signer=configured_roles().policy_signer)

    def _relayer_calls(self) -> Iterator[tuple[str, str]]:
        for number in range(RELAYERS):
            address = self.chain.preparer.relayer_address(number)
            self.rpc("anvil_setBalance", address, _COINS_WEI)
            yield self.escrow, call("setRelayer(address,bool)", address, True)

    def _deploy_token(self, asset: Asset) -> str:
        return self._deploy(_TOKEN)


class Shop:
    """A page behind x402's middleware, and the facilitator alone."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def visit(self, payload: dict[str, Any] | None = None) -> requests.Response:
        """Ask for the page, with x402's payment payload if there is one."""
        headers = {} if payload is None else {"PAYMENT-SIGNATURE": _encode(payload)}
        return requests.get(f"{self.url}/report", headers=headers, timeout=60)

    def requirements(self) -> dict[str, Any]:
        """Read what the page costs from its 402."""
        answer = self.visit()
        assert answer.status_code == 402, answer.text
        asked: dict[str, Any] = json.loads(base64.b64decode(answer.headers["PAYMENT-REQUIRED"]))
        (one,) = asked["accepts"]
        return dict(one)

    def ask(self, what: str, payload: dict[str, Any], requirements: dict[str, Any]) -> dict[str, Any]:
        """Ask the facilitator to `verify` or to `settle`."""
        body: dict[str, Any] = {"x402Version": 2, "paymentPayload": payload, "paymentRequirements": requirements}
        answer = requests.post(f"{self.url}/{what}", json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


@contextmanager
def open_shop(deployment: X402Deployment, pay_to: str, *, amount: int, timeout_s: int = 60) -> Iterator[Shop]:
    """Run a shop until the block ends; its facilitator submits from an account of its own."""
    account = Account.create()
    deployment.rpc("anvil_setBalance", account.address, _COINS_WEI)
    environment = {
        "PATH": os.defpath,
        "RPC_URL": deployment.url,
        "PRIVATE_KEY": "0x" + bytes(account.key).hex(),
        "NETWORK": NETWORK,
        "ASSET": deployment.token,
        "PAY_TO": pay_to,
        "AMOUNT": str(amount),
        "TIMEOUT_S": str(timeout_s),
    }
    command: list[str | Path] = [*_WITH_US, install(), "-I", _SERVER]
    with ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        stack.callback(process.kill)
        assert process.stdout
        port = process.stdout.readline()
        assert port, "x402's server did not start; it has written why."
        yield Shop(int(port))


def serve(deployment: X402Deployment, changed: Any) -> None:
    """Have this installation serve the chain; `changed` are the settings of a test."""
    deployment.forget()
    changed.CHAINS = {**settings.CHAINS, NETWORK: deployment.served}
    changed.RELAYERS_PER_CHAIN = RELAYERS


def _encode(payload: dict[str, Any]) -> str:
    return base64.b64encode(json.dumps(payload).encode()).decode()

"""What the node alone can do: transactions that were signed before, sent in batches, until all are final.

It uses no code of the product but its encoding and signing, which happen before the clock starts.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import requests
from django.conf import settings
from eth_abi.abi import encode
from eth_utils.crypto import keccak
from web3.types import Nonce
from web3.utils.address import get_create_address

from chains.evm.adapter import EvmChain
from chains.evm.derivation import derive_account
from chains.evm.eip1559 import Fees, sign_call
from chains.evm.preparing import GAS_LIMIT
from chains.port import Order, Submitter, TransactionPlan
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from policy.signer import local_signer
from workshop.embedded.artifacts import creation_data, read_artifact
from workshop.embedded.evm_setup import EvmSetup
from workshop.embedded.prepared import ESCROW_ARTIFACT
from workshop.localnet.folder import open_folder

LOCALNET = "eip155:31337"
# As the product sends them.
BATCH_SIZE = 100
_GAS_MONEY_WEI = 100 * 10**18
_PLENTY_UNITS = 10**12
_ESCROW_UNITS = 10**19
_DEPLOY_GAS = 8_000_000
_UNITS = 10_000
# Longer than a turn takes: only what the node has forgotten is sent again.
_RESEND_S = 30
_PATIENCE_S = 300
_POLL_S = 0.1


class RawSenders:
    """Accounts with gas money and tokens, which the escrow takes for relayers, and which nobody else uses."""

    def __init__(self, count: int, recipient: str) -> None:
        served = settings.CHAINS[LOCALNET]
        self._url = served.rpc_urls[0]
        self._session = requests.Session()
        self._recipient = recipient
        self._setup = EvmSetup.of(open_folder())
        self._deployer_nonce = self._count_sent(self._setup.deployer.address)
        # Not the escrow of the product, which takes payments that it does not know for thefts.
        escrow = get_create_address(self._setup.deployer.address, Nonce(self._deployer_nonce))
        self._served = replace(served, escrow=escrow)
        self._seed = os.urandom(64)
        # A key of its own for each sender, by the product's own derivation.
        self._adapter = EvmChain.of(self._served, relayer_seed=self._seed)
        self._senders = [self._adapter.preparer.relayer_address(number) for number in range(count)]
        self._nonces = [0] * count
        self._prepare()

    def time_transfers(self, count: int) -> float:
        """Transfer tokens, one ERC-20 call each; return transfers per second until all were final."""
        state = self._adapter.observer.observe()
        return self._time([self._sign_transfer(number, state) for number in self._turns(count)])

    def time_payments(self, count: int) -> float:
        """Make the escrow pay, by the same calls that the product sends; return payments per second."""
        raws = []
        state = self._adapter.observer.observe()
        for number in self._turns(count):
            now = utc_now()
            order = Order("0x" + os.urandom(32).hex(), Asset.USDC, Decimal("0.01"), self._recipient)
            submitter = Submitter(number, self._senders[number], self._next_nonce(number))
            plan = TransactionPlan.of_one(order, submitter, state, local_signer())
            raws.append(self._adapter.preparer.prepare(plan, now).raw)
        return self._time(raws)

    @property
    def _token(self) -> str:
        return self._served.tokens[Asset.USDC]

    def _turns(self, count: int) -> Iterator[int]:
        return (index % len(self._senders) for index in range(count))

    def _next_nonce(self, number: int) -> int:
        self._nonces[number] += 1
        return self._nonces[number] - 1

    def _time(self, raws: Sequence[bytes]) -> float:
        had = self._units_of_recipient()
        began = time.perf_counter()
        self._send(raws)
        sent = began
        while not self._are_final():
            time.sleep(_POLL_S)
            if time.perf_counter() - began > _PATIENCE_S:
                raise RuntimeError("Not all raw transactions are in blocks.")
            if time.perf_counter() - sent > _RESEND_S:
                # Nodes forget. Those that it still knows, or has in blocks, it refuses.
                sent = time.perf_counter()
                self._offer(raws)
        elapsed = time.perf_counter() - began
        if self._units_of_recipient() != had + len(raws) * _UNITS:
            raise RuntimeError("A raw transaction did not do its work.")
        return len(raws) / elapsed

    def _units_of_recipient(self) -> int:
        data = "0x" + _call("balanceOf(address)", self._recipient).hex()
        return int(self._ask([("eth_call", {"to": self._token, "data": data}, "latest")])[0], 16)

    def _are_final(self) -> bool:
        used = self._ask([("eth_getTransactionCount", sender, "finalized") for sender in self._senders])
        return [int(count, 16) for count in used] == self._nonces

    def _count_sent(self, address: str, block: str = "latest") -> int:
        return int(self._ask([("eth_getTransactionCount", address, block)])[0], 16)

    def _prepare(self) -> None:
        """Let the deployer make an escrow, and give it and every account what it needs."""
        signer = self._setup.policy_signer
        artifact = read_artifact(ESCROW_ARTIFACT)
        escrow = self._served.escrow
        calls = [
            (None, creation_data(artifact, self._setup.deployer.address, signer, self._senders), 0),
            (self._token, _call("mint(address,uint256)", escrow, _ESCROW_UNITS), 0),
            # More than all agents of a benchmark are given: else reconciliation would find that money is missing.
            (self._token, _call("mint(address,uint256)", settings.CHAINS[LOCALNET].escrow, _ESCROW_UNITS), 0),
            (escrow, _call("setDailyCap(address,uint256)", self._token, _ESCROW_UNITS), 0),
        ]
        for sender in self._senders:
            calls.append((sender, b"", _GAS_MONEY_WEI))
            calls.append((self._token, _call("mint(address,uint256)", sender, _PLENTY_UNITS), 0))
        state = self._adapter.observer.observe()
        self._send([self._sign_call(self._deployer_nonce + index, state, *call) for index, call in enumerate(calls)])
        while self._count_sent(self._setup.deployer.address, "finalized") < self._deployer_nonce + len(calls):
            time.sleep(_POLL_S)

    def _sign_call(self, nonce: int, state: Mapping[str, Any], to: str | None, data: bytes, value_wei: int) -> bytes:
        fields: dict[str, Any] = {
            "chainId": self._served.chain.chain_id,
            "nonce": nonce,
            "gas": _DEPLOY_GAS if to is None else GAS_LIMIT,
            **{name: state[name] for name in ("maxFeePerGas", "maxPriorityFeePerGas")},
            "data": data,
            "value": value_wei,
        }
        if to is not None:
            fields["to"] = to
        return bytes(self._setup.deployer.sign_transaction(fields).raw_transaction)

    def _sign_transfer(self, number: int, state: Mapping[str, Any]) -> bytes:
        key, _ = derive_account(self._seed, number)
        token = bytes.fromhex(self._token.removeprefix("0x"))
        fees = Fees(GAS_LIMIT, state["maxFeePerGas"], state["maxPriorityFeePerGas"])
        data = _call("transfer(address,uint256)", self._recipient, _UNITS)
        chain_id, nonce = self._served.chain.chain_id, self._next_nonce(number)
        return sign_call(key, chain_id=chain_id, nonce=nonce, to=token, data=data, fees=fees)[1]

    def _send(self, raws: Sequence[bytes]) -> None:
        for refusal in self._offer(raws):
            raise RuntimeError(refusal)

    def _offer(self, raws: Sequence[bytes]) -> list[Any]:
        """Send transactions; returns why the node has refused some."""
        refusals = []
        for start in range(0, len(raws), BATCH_SIZE):
            calls = [("eth_sendRawTransaction", "0x" + raw.hex()) for raw in raws[start : start + BATCH_SIZE]]
            refusals += [answer["error"] for answer in self._post(calls) if "error" in answer]
        return refusals

    def _ask(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        answers = self._post(calls)
        for answer in answers:
            if "error" in answer:
                raise RuntimeError(answer["error"])
        return [answer["result"] for answer in answers]

    def _post(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        body = [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
            for number, (method, *parameters) in enumerate(calls)
        ]
        answers: list[Any] = self._session.post(self._url, json=body, timeout=60).json()
        return answers


def _call(signature: str, *arguments: Any) -> bytes:
    types = signature[signature.index("(") + 1 : -1].split(",")
    return bytes(keccak(text=signature)[:4] + encode(types, arguments))

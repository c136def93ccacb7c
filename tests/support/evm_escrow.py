"""The escrow on the embedded EVM chain, by plain JSON-RPC, with nothing of ours in between."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests
from django.conf import settings
from eth_abi.abi import encode
from eth_account import Account
from eth_utils.crypto import keccak

from foundation.kernel.assets import Asset
from payments.models import Payment
from tests.support.local_ids import LOCALNET
from workshop.localnet.folder import open_folder

TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"


def rpc(method: str, *params: Any) -> Any:
    """Ask the embedded node, with nothing of ours in between."""
    body: Any = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = requests.post(settings.CHAINS[LOCALNET].rpc_urls[0], json=body, timeout=30).json()
    assert "error" not in answer, answer
    return answer["result"]


def escrow() -> str:
    return settings.CHAINS[LOCALNET].escrow


def token(asset: Asset = Asset.USDC) -> str:
    return settings.CHAINS[LOCALNET].tokens[asset]


def balance_of(asset: Asset, owner: str) -> int:
    return int(rpc("eth_call", {"to": token(asset), "data": call("balanceOf(address)", owner)}, "latest"), 16)


def is_settled(payment_id: str) -> bool:
    word = bytes.fromhex(Payment.objects.get(pk=payment_id).escrow_id.removeprefix("0x"))
    return int(rpc("eth_call", {"to": escrow(), "data": call("status(bytes32)", word)}, "latest"), 16) == 1


def call(signature: str, *arguments: Any) -> str:
    types = [one for one in signature[signature.index("(") + 1 : -1].split(",") if one]
    return "0x" + (keccak(text=signature)[:4] + encode(types, arguments)).hex()


def as_owner(signature: str, *arguments: Any) -> None:
    """Call the escrow as its owner and wait until the call is in a block."""
    send_as_owner(escrow(), call(signature, *arguments))


# What the owner was asked to do so far: whoever has it do something puts it back (`tests.support.left_behind`).
OWNER_ACTS: list[str] = []


def send_as_owner(to: str, data: str) -> str:
    """Send a call of the owner, who also mints the tokens, and wait until it is in a block; returns its id."""
    OWNER_ACTS.append(to)
    owner = Account.from_key(open_folder().keys()["EVM_DEPLOYER_KEY"])
    signed = owner.sign_transaction(
        {
            "chainId": 31337,
            "nonce": int(rpc("eth_getTransactionCount", owner.address), 16),
            "gas": 250_000,
            "maxFeePerGas": 10**12,
            "maxPriorityFeePerGas": 10**9,
            "to": to,
            "data": data,
        }
    )
    tx: str = rpc("eth_sendRawTransaction", "0x" + signed.raw_transaction.hex())
    while (receipt := rpc("eth_getTransactionReceipt", tx)) is None:
        rpc("evm_mine")
    assert receipt["status"] == "0x1"
    return tx


@contextmanager
def paused_escrow() -> Iterator[None]:
    as_owner("pause()")
    try:
        yield
    finally:
        as_owner("unpause()")


@contextmanager
def daily_cap(asset: Asset, units: int) -> Iterator[None]:
    before = int(rpc("eth_call", {"to": escrow(), "data": call("dailyCap(address)", token(asset))}, "latest"), 16)
    as_owner("setDailyCap(address,uint256)", token(asset), units)
    try:
        yield
    finally:
        as_owner("setDailyCap(address,uint256)", token(asset), before)

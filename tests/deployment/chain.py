"""The tokens of a real network on anvil, at their own addresses, where an operator finds them."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import requests
from eth_abi.abi import encode

from chains.evm.contract_calls import encode_call
from foundation.kernel.assets import Asset
from tests.documents.pages import ROOT
from tests.support.kills import wait_until

_TOKEN = json.loads((ROOT / "workshop/embedded/contracts/test_token.json").read_text())
# Where the contract keeps its name, its symbol and its owner, who mints.
_NAME, _SYMBOL, _OWNER = "0x3", "0x4", "0x8"
_COINS = 10**17


def provide(url: str, tokens: Mapping[Asset, str], owner: str) -> None:
    """Let each address have a token that this account mints, and give it 0.1 of the chain's coin."""
    ask(url, "anvil_setBalance", owner, hex(_COINS))
    funder = ask(url, "eth_accounts")[0]
    for asset, address in tokens.items():
        data = _TOKEN["bytecode"] + encode(["string", "string", "uint8"], ["A test", str(asset), 6]).hex()
        tx = ask(url, "eth_sendTransaction", {"from": funder, "data": data, "gas": hex(3_000_000)})
        ask(url, "anvil_mine")
        # It mines by itself, too: what it is asked to mine may be an empty block, beside the one that has this.
        receipt = wait_until(partial(ask, url, "eth_getTransactionReceipt", tx), f"{asset} is in a block")
        made = receipt["contractAddress"]
        ask(url, "anvil_setCode", address, ask(url, "eth_getCode", made, "latest"))
        kept = {slot: ask(url, "eth_getStorageAt", made, slot, "latest") for slot in (_NAME, _SYMBOL)}
        for slot, value in {**kept, _OWNER: f"0x{owner.removeprefix('0x').lower():0>64}"}.items():
            ask(url, "anvil_setStorageAt", address, slot, value)


def read_units(url: str, token: str, owner: str) -> int:
    """Read how much of a token an account has, in base units."""
    return int(
        ask(url, "eth_call", {"to": token, "data": "0x" + encode_call("balanceOf(address)", owner).hex()}, "latest"), 16
    )


def ask(url: str, method: str, *parameters: Any) -> Any:
    body: Any = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    answer = requests.post(url, json=body, timeout=30).json()
    assert "result" in answer, f"{method}: {answer}"
    return answer["result"]

"""An independent look at the chain: plain JSON-RPC, none of the service's own code."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import requests

from allowance.kernel.assets import Asset
from allowance.kernel.money import to_base_units
from services.chains import ServedChain

# keccak256("Transfer(address,address,uint256)"), the same for every ERC-20 token.
_TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Transfer:
    """What a transaction did, by its receipt: its status, its block, the base units that reached the payee."""

    status: str
    block: int
    units: int
    expected_units: int

    @property
    def is_exact(self) -> bool:
        return self.status == "0x1" and self.units == self.expected_units


def find_transfer(chain: ServedChain, tx: str, *, asset: Asset, amount: str, address: str) -> Transfer | None:
    """Read a transaction's receipt and add up what it moved from the escrow to an address; None: not on chain."""
    receipt = _ask(chain.rpc_urls[0], "eth_getTransactionReceipt", tx)
    if receipt is None:
        return None
    topics = [_TRANSFER, _topic(chain.escrow), _topic(address)]
    units = sum(
        int(log["data"], 16)
        for log in receipt["logs"]
        if log["address"].lower() == chain.tokens[asset].lower() and log["topics"] == topics
    )
    return Transfer(receipt["status"], int(receipt["blockNumber"], 16), units, to_base_units(Decimal(amount), asset))


def _ask(url: str, method: str, *params: Any) -> Any:
    with requests.Session() as session:
        session.trust_env = False
        answer = session.post(
            url, json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, timeout=_TIMEOUT_S
        ).json()
    return answer["result"]


def _topic(address: str) -> str:
    return f"0x{address.lower().removeprefix('0x'):0>64}"

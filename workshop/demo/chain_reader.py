"""Ask the chains independently: plain JSON-RPC, without the adapters that made the payments."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import requests

from chains.catalogue import ServedChain
from foundation.kernel.assets import Asset
from foundation.kernel.money import to_base_units

_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Claim:
    """A payment as the API reports it: this transaction paid an amount of an asset to a payee."""

    chain: ServedChain
    payment_id: str
    tx: str
    asset: Asset
    amount: str
    address: str

    @property
    def units(self) -> int:
        """The amount in base units."""
        return to_base_units(Decimal(self.amount), self.asset)

    def ask(self, method: str, *params: Any) -> Any:
        """Ask a node of the chain; returns the result, None if there is none."""
        with requests.Session() as session:
            session.trust_env = False
            body: Any = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return session.post(self.chain.rpc_urls[0], json=body, timeout=_TIMEOUT_S).json().get("result")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A payment as the chain shows it, and whether that is exactly what was claimed."""

    text: str
    is_exact: bool

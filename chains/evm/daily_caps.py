"""Read what the escrow may still pay today: the most that it pays of each token between two midnights (UTC)."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from chains.evm.answers import read_number
from chains.evm.contract_calls import encode_call
from chains.rpc.nodes import Nodes
from chains.rpc.transport import Call
from foundation.kernel.assets import Asset
from foundation.kernel.money import from_base_units


@dataclass(frozen=True, slots=True)
class DailyCap:
    """The cap of an asset and what has been paid of it today, in units of the asset."""

    most: Decimal
    paid: Decimal

    @property
    def left(self) -> Decimal:
        return max(Decimal(0), self.most - self.paid)


def read_daily_caps(nodes: Nodes, escrow: str, tokens: Mapping[Asset, str]) -> dict[Asset, DailyCap]:
    """Ask the first node that answers. Raises `ChainUnavailable`."""
    calls = [
        _view(escrow, f"{name}(address)", token) for token in tokens.values() for name in ("dailyCap", "paidToday")
    ]
    answers = nodes.read(calls, lambda said: [read_number(answer) for answer in said])
    pairs = zip(answers[::2], answers[1::2], strict=True)
    return {
        asset: DailyCap(from_base_units(most, asset), from_base_units(paid, asset))
        for asset, (most, paid) in zip(tokens, pairs, strict=True)
    }


def _view(to: str, signature: str, *arguments: Any) -> Call:
    return ("eth_call", {"to": to, "data": "0x" + encode_call(signature, *arguments).hex()}, "latest")

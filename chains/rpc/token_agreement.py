"""Agree on the tokens of a chain: one node alone neither takes an asset out of service nor puts it back. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from chains.rpc.agreement import find_agreed


def agree_on_tokens(
    assets: Sequence[str], replies: Sequence[Mapping[str, Any]], known: Mapping[str, Any], *, quorum: int
) -> dict[str, Any]:
    """Choose for each asset what nodes agree on about its token, as JSON by asset.

    Where too few agree, what was `known` before stays; an asset of which nothing was known is not paid with.
    """
    return {asset: _agree(asset, [one[asset] for one in replies], known.get(asset), quorum) for asset in assets}


def _agree(asset: str, said: Sequence[Any], known: Any, quorum: int) -> Any:
    agreed = find_agreed([json.dumps(one, sort_keys=True) for one in said], quorum)
    if agreed is not None:
        return json.loads(agreed)
    return known or {"objection": f"Too few nodes agree on the token of {asset}."}

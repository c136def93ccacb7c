"""Show what the owner of an EVM escrow has to call, in one way for all commands: for a wallet, and for a Safe."""

from collections.abc import Callable, Sequence
from typing import Any

from chains.catalogue import Chain
from chains.evm.owner_calls import OwnerCall, write_safe_batch
from foundation.kernel.times import utc_now


def show_owner_calls(
    calls: Sequence[OwnerCall],
    *,
    owner: str,
    chain: Chain,
    made_by: str,
    tell: Callable[[str], None],
    show: Callable[[str], None],
) -> dict[str, Any]:
    """Tell people each call with its calldata, and show the batch that a Safe reads; returns both for programs.

    `made_by` is the command's name.
    """
    tell(f"The owner {owner} has to call, in this order:")
    for call in calls:
        said = call.as_json()
        tell(f"  {call.text}")
        tell(f"    to {said['to']}, value {said['value']}, data {said['data']}")
    tell("Or, if it is a Safe, all at once, by the Transaction Builder, from a file of this line:")
    batch = write_safe_batch(
        calls,
        chain_id=chain.chain_id,
        name=f"Allowance: {made_by} on {chain.alias}",
        made_by=made_by,
        created_at_ms=int(utc_now().timestamp() * 1000),
    )
    show(batch)
    return {"owner": owner, "calls": [{**call.as_json(), "call": call.text} for call in calls], "safe": batch}

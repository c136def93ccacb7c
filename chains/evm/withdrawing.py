"""Encode the call that the owner of an EVM escrow signs to withdraw tokens."""

import json
from typing import Any

from chains.evm.contract_calls import encode_call


def withdrawal_call(escrow: str, chain_id: int, *, token: str, recipient: str, units: int) -> dict[str, Any]:
    """Return the call of the escrow that withdraws tokens (`units` in base units), in the form of wallets."""
    data = "0x" + encode_call("withdraw(address,address,uint256)", token, recipient, units).hex()
    return {"to": escrow, "value": "0", "data": data, "chainId": chain_id}


def safe_batch(call: dict[str, Any], *, name: str, created_at_ms: int) -> str:
    """Write a call as a file for the Transaction Builder of a Safe."""
    transaction = {key: call[key] for key in ("to", "value", "data")}
    return json.dumps(
        {
            "version": "1.0",
            "chainId": str(call["chainId"]),
            "createdAt": created_at_ms,
            "meta": {"name": name, "description": "Made by manage.py withdraw_funds"},
            "transactions": [{**transaction, "contractMethod": None, "contractInputsValues": None}],
        }
    )

"""Write calls that only the owner of an EVM escrow can make, for wallets and for a Safe. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from chains.evm.contract_calls import encode_call


@dataclass(frozen=True, slots=True)
class OwnerCall:
    """A call of the escrow at `to`, without value; `text` describes it for people."""

    to: str
    data: bytes
    text: str

    def as_json(self) -> dict[str, str]:
        """Write the call in the form of wallets."""
        return {"to": self.to, "value": "0", "data": "0x" + self.data.hex()}


def withdraw(escrow: str, token: str, recipient: str, units: int) -> OwnerCall:
    """Encode the call that takes tokens (`units` in base units) out of the escrow."""
    data = encode_call("withdraw(address,address,uint256)", token, recipient, units)
    return OwnerCall(escrow, data, f"withdraw({token}, {recipient}, {units})")


def write_safe_batch(calls: Sequence[OwnerCall], *, chain_id: int, name: str, made_by: str, created_at_ms: int) -> str:
    """Write calls as one file for the Transaction Builder of a Safe; `made_by` is the command that asks for them."""
    return json.dumps(
        {
            "version": "1.0",
            "chainId": str(chain_id),
            "createdAt": created_at_ms,
            "meta": {"name": name, "description": f"Made by manage.py {made_by}"},
            "transactions": [
                {**call.as_json(), "contractMethod": None, "contractInputsValues": None} for call in calls
            ],
        }
    )

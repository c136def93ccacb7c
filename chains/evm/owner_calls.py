"""Encode the calls that only the owner of an EVM escrow can make, for wallets and for a Safe. Pure."""

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


def set_relayer(escrow: str, relayer: str, *, enabled: bool) -> OwnerCall:
    """Encode the call that enables or disables a relayer."""
    text = f"setRelayer({relayer}, {'true' if enabled else 'false'})"
    return OwnerCall(escrow, encode_call("setRelayer(address,bool)", relayer, enabled), text)


def set_policy_signer(escrow: str, signer: str) -> OwnerCall:
    """Encode the call after which the escrow pays only what this signer has signed."""
    return OwnerCall(escrow, encode_call("setPolicySigner(address)", signer), f"setPolicySigner({signer})")


def set_daily_cap(escrow: str, token: str, units: int) -> OwnerCall:
    """Encode the call that sets the most base units of a token that the escrow pays in a day."""
    return OwnerCall(
        escrow, encode_call("setDailyCap(address,uint256)", token, units), f"setDailyCap({token}, {units})"
    )


def set_authorization_limits(escrow: str, token: str, most: int, reserve: int) -> OwnerCall:
    """Encode the call that lets payees take up to `most` base units of a token at once, while `reserve` stays."""
    data = encode_call("setAuthorizationLimits(address,uint256,uint256)", token, most, reserve)
    return OwnerCall(escrow, data, f"setAuthorizationLimits({token}, {most}, {reserve})")


def pause(escrow: str) -> OwnerCall:
    """Encode the call after which the escrow neither pays nor takes deposits."""
    return OwnerCall(escrow, encode_call("pause()"), "pause()")


def unpause(escrow: str) -> OwnerCall:
    """Encode the call that lets a paused escrow go on."""
    return OwnerCall(escrow, encode_call("unpause()"), "unpause()")


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

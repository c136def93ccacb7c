"""Encode the calls by which the owner of an EVM escrow changes what it does; `withdraw` is the product's. Pure."""

from chains.evm.contract_calls import encode_call
from chains.evm.owner_calls import OwnerCall


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

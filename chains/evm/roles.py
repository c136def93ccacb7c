"""Read the roles of an escrow, and encode the calls by which its owner changes them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from eth_utils.address import to_checksum_address

from chains.evm.adapter import EvmChain
from chains.evm.answers import read_number
from chains.evm.contract_calls import encode_call


@dataclass(frozen=True, slots=True)
class GivenRoles:
    """The roles that an escrow knows; `enabled` are those of the queried relayers that may submit."""

    owner: str
    policy_signer: str
    enabled: frozenset[str]


@dataclass(frozen=True, slots=True)
class OwnerCall:
    """A call that only the owner of an escrow can make; `text` describes it for people."""

    to: str
    data: bytes
    text: str


def read_roles(chain: EvmChain, relayers: Sequence[str]) -> GivenRoles:
    """Read the roles of an escrow as of the newest block.

    Raises:
        ChainUnavailable: too few nodes answered, or some are a block behind.
    """
    escrow = chain.served.escrow
    questions = [encode_call("owner()"), encode_call("policySigner()")]
    questions += [encode_call("relayers(address)", relayer) for relayer in relayers]
    owner, signer, *flags = chain.nodes.read_agreed(
        [("eth_call", {"to": escrow, "data": "0x" + question.hex()}, "latest") for question in questions],
        lambda answers: [read_number(answer) for answer in answers],
    )
    enabled = frozenset(relayer for relayer, flag in zip(relayers, flags, strict=True) if flag)
    return GivenRoles(_address(owner), _address(signer), enabled)


def set_relayer(escrow: str, relayer: str, *, enabled: bool) -> OwnerCall:
    """Encode the call that enables or disables a relayer."""
    text = f"setRelayer({relayer}, {'true' if enabled else 'false'})"
    return OwnerCall(escrow, encode_call("setRelayer(address,bool)", relayer, enabled), text)


def set_policy_signer(escrow: str, signer: str) -> OwnerCall:
    """Encode the call after which the escrow pays only what this signer has signed."""
    return OwnerCall(escrow, encode_call("setPolicySigner(address)", signer), f"setPolicySigner({signer})")


def write_safe_batch(calls: Sequence[OwnerCall], *, chain_id: int, name: str, created_at_ms: int) -> str:
    """Write calls as one file for the Transaction Builder of a Safe."""
    return json.dumps(
        {
            "version": "1.0",
            "chainId": str(chain_id),
            "createdAt": created_at_ms,
            "meta": {"name": name, "description": "Made by manage.py rotate_keys"},
            "transactions": [
                {
                    "to": call.to,
                    "value": "0",
                    "data": "0x" + call.data.hex(),
                    "contractMethod": None,
                    "contractInputsValues": None,
                }
                for call in calls
            ],
        }
    )


def _address(number: int) -> str:
    return str(to_checksum_address((number % 2**160).to_bytes(20, "big")))

"""Read the roles of an escrow."""

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


def _address(number: int) -> str:
    return str(to_checksum_address((number % 2**160).to_bytes(20, "big")))

"""Read from the nodes the state that must match our configuration: the chain, the escrow and its roles, the tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_utils.address import to_checksum_address

from chains.catalogue import ServedChain
from chains.evm.answers import read_count
from chains.evm.configuration_check import Contracts, Expected, Inspection, Roles
from chains.evm.contract_calls import encode_call
from chains.evm.contract_errors import read_returned
from chains.evm.found_tokens import Authorizations, Token
from chains.port import ChainUnavailable, Contradiction
from chains.rpc.agreement import confirmed_by_two, find_outvoted, most_common
from chains.rpc.nodes import Nodes
from chains.rpc.transport import Call
from foundation.kernel.assets import Asset
from foundation.kernel.money import from_base_units

_TEXT_LENGTH = 20
_WORD = 32


class EvmInspector:
    """Compares the chain with the configuration; see `Inspector`. Each of `singles` asks one node of any chain.

    Without a `policy_signer`, the escrow's roles are not compared.
    """

    def __init__(self, nodes: Nodes, served: ServedChain, policy_signer: str | None) -> None:
        self._nodes, self._served, self._policy_signer = nodes, served, policy_signer
        self.singles = [Nodes((url,)) for url in served.rpc_urls]

    def find_mismatches(self, relayers: Sequence[str]) -> list[str]:
        return self.inspect(relayers).find_mismatches()

    def find_foreign(self, relayers: Sequence[str]) -> list[str]:
        return self.inspect(relayers).find_foreign()

    def take_contradictions(self) -> list[Contradiction]:
        return self._nodes.agreement.take_contradictions()

    def inspect(self, relayers: Sequence[str]) -> Inspection:
        """Read the configuration of the nodes, the escrow and the tokens; `relayers` as of `find_mismatches`."""
        found = inspect(self.singles, self.expect(relayers))
        self._nodes.note_contradictions(found.outvoted, "the escrow and the tokens")
        return found

    def expect(self, relayers: Sequence[str]) -> Expected:
        """Collect the configuration that is compared with the chain."""
        roles = Roles(self._policy_signer, tuple(relayers)) if self._policy_signer else None
        served = self._served
        return Expected(
            served.chain.chain_id, served.escrow, served.tokens, roles, served.first_block, owner=served.owner
        )


def inspect(nodes: Sequence[Nodes], expected: Expected) -> Inspection:
    """Ask every node for its chain, and for the contracts: what most nodes of the right chain say of them is taken."""
    calls = _calls(expected)
    replies = [_ask(one, calls) for one in nodes]
    chain_ids = tuple(_chain_id(answers) for answers in replies)
    said = [
        _read_contracts(answers, expected) if found == expected.chain_id else None
        for answers, found in zip(replies, chain_ids, strict=True)
    ]
    known = [found for found in said if found is not None]
    return Inspection(expected, chain_ids, _agree(known) if known else None, find_outvoted(said))


def read_chain_ids(nodes: Sequence[Nodes]) -> tuple[int | None, ...]:
    """Ask every node for its chain id; None: the node is away."""
    return tuple(_chain_id(_ask(one, [("eth_chainId",)])) for one in nodes)


def _agree(known: Sequence[Contracts]) -> Contracts:
    """Take what most nodes say; their newest blocks differ, and one alone does not say how far the chain is."""
    agreed = most_common(known)
    return replace(agreed, newest_block=confirmed_by_two(one.newest_block for one in known if one == agreed))


def _calls(expected: Expected) -> list[Call]:
    escrow, roles = expected.escrow, expected.roles
    calls: list[Call] = [("eth_chainId",), ("eth_blockNumber",), ("eth_getCode", escrow, "latest")]
    calls += [_view(escrow, "eip712Domain()")]
    calls += [_view(escrow, "policySigner()"), _view(escrow, "owner()"), _view(escrow, "paused()")]
    calls += [_view(escrow, "MOST_TOGETHER()")]
    calls += [_view(escrow, "relayers(address)", relayer) for relayer in (roles.relayers if roles else ())]
    for token in expected.tokens.values():
        calls += [("eth_getCode", token, "latest"), _view(token, "decimals()"), _view(token, "symbol()")]
        calls += [_view(escrow, "dailyCap(address)", token)]
        calls += [_view(escrow, "authorizationLimits(address)", token), _view(token, "DOMAIN_SEPARATOR()")]
    return calls


def _view(to: str, signature: str, *arguments: Any) -> Call:
    return ("eth_call", {"to": to, "data": "0x" + encode_call(signature, *arguments).hex()}, "latest")


def _ask(node: Nodes, calls: list[Call]) -> list[Any] | None:
    try:
        return node.ask(calls)
    except ChainUnavailable:
        return None


def _chain_id(answers: list[Any] | None) -> int | None:
    try:
        return None if answers is None else read_count(answers[0])
    except ValueError:
        return None


def _read_contracts(answers: list[Any] | None, expected: Expected) -> Contracts | None:
    """Read the answers in the order of `_calls`; None if this node does not know them, or is away."""
    if answers is None:
        return None
    relayers = expected.roles.relayers if expected.roles else ()
    try:
        newest = read_count(answers[1])
        said = iter([read_returned(answer) for answer in answers[2:]])
        return Contracts(
            newest_block=newest,
            has_escrow=bool(next(said)),
            domain=_domain(next(said)),
            policy_signer=_address(_number(next(said))),
            owner=_address(_number(next(said))),
            is_paused=_truth(_number(next(said))),
            most_together=_number(next(said)),
            enabled_relayers=frozenset([relayer for relayer in relayers if _number(next(said))]),
            tokens=tuple(_read_token(asset, address, said) for asset, address in expected.tokens.items()),
        )
    except ValueError:
        return None


def _read_token(asset: Asset, address: str, said: Iterator[bytes | None]) -> Token:
    code, decimals, symbol, cap, limits, domain = (next(said) for _ in range(6))
    units = _number(cap)
    return Token(
        asset=asset,
        address=address,
        has_code=bool(code),
        decimals=_number(decimals),
        symbol=_text(symbol),
        daily_cap=None if units is None else from_base_units(units, asset),
        authorizations=_read_authorizations(limits or b"", domain or b""),
    )


def _read_authorizations(limits: bytes, domain: bytes) -> Authorizations | None:
    """Read the limits that the owner has set; None: none, or an escrow or a token that knows no authorizations."""
    if len(limits) < 2 * _WORD or len(domain) != _WORD or not any(limits[:_WORD]):
        return None
    most, reserve = (int.from_bytes(limits[start : start + _WORD], "big") for start in (0, _WORD))
    return Authorizations(most, reserve, domain.hex())


def _number(returned: bytes | None) -> int | None:
    return int.from_bytes(returned[:_WORD], "big") if returned and len(returned) >= _WORD else None


def _address(number: int | None) -> str | None:
    return None if number is None else str(to_checksum_address((number % 2**160).to_bytes(20, "big")))


def _domain(returned: bytes | None) -> tuple[str, str] | None:
    """Read the name and the version of an EIP-712 domain, as ERC-5267 returns it."""
    try:
        _, name, version = decode(["bytes1", "string", "string"], returned or b"")
    except (DecodingError, UnicodeDecodeError, OverflowError):
        return None
    return _clean(name), _clean(version)


def _truth(number: int | None) -> bool | None:
    return None if number is None else number != 0


def _text(returned: bytes | None) -> str | None:
    try:
        text = str(decode(["string"], returned or b"")[0])
    except (DecodingError, UnicodeDecodeError, OverflowError):
        return None
    return _clean(text)


def _clean(text: str) -> str:
    return "".join(character for character in text if character.isprintable())[:_TEXT_LENGTH]

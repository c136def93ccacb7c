"""Read from the nodes the state that must match our configuration: the chain, the escrow, its signers, the tokens."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from chains.catalogue import ServedChain
from chains.port import ChainUnavailable, Contradiction
from chains.rpc.agreement import confirmed_by_two, find_outvoted, most_common
from chains.rpc.nodes import Nodes
from chains.rpc.transport import RpcError
from chains.solana.answers import CONFIRMED, Account, accounts_calls, read_accounts, read_hash
from chains.solana.configuration_check import Accounts, Expected, Inspection, Token
from chains.solana.derivation import EscrowSigners
from chains.solana.token_accounts import (
    escrow_addresses,
    find_account_objection,
    is_native,
    possible_accounts,
    read_asset_mint,
    read_token_account,
)
from foundation.kernel.assets import Asset

_GENESIS = ("getGenesisHash",)
_SLOT = ("getSlot", CONFIRMED)
_DEPLOY = "manage.py deploy_escrow makes it"


class SolanaInspector:
    """Compares the chain with the configuration; see `Inspector`. Each of `singles` asks one node of any chain."""

    def __init__(self, nodes: Nodes, served: ServedChain, signers: EscrowSigners) -> None:
        self._nodes, self._served, self._signers = nodes, served, signers
        self.singles = [Nodes((url,)) for url in served.rpc_urls]

    def find_mismatches(self, relayers: Sequence[str]) -> list[str]:
        return self.inspect(relayers).find_mismatches()

    def find_foreign(self, relayers: Sequence[str]) -> list[str]:
        return self.inspect(relayers).find_foreign()

    def take_contradictions(self) -> list[Contradiction]:
        return self._nodes.agreement.take_contradictions()

    def inspect(self, relayers: Sequence[str]) -> Inspection:
        """Read the configuration of the nodes, the escrow and the tokens."""
        # The escrow's address is derived from its signers, among them its only relayer: no list has to be compared.
        found = inspect(self.singles, self.expect())
        self._nodes.note_contradictions(found.outvoted, "the escrow and the tokens")
        return found

    def expect(self) -> Expected:
        """Collect the configuration that is compared with the chain."""
        served = self._served
        return Expected(served.chain.reference, served.escrow, served.tokens, self._signers, served.first_block)


def inspect(nodes: Sequence[Nodes], expected: Expected) -> Inspection:
    """Ask every node for its chain, and for the accounts: what most nodes of the right chain say of them is taken."""
    addresses = _addresses(expected)
    calls = [_GENESIS, _SLOT, *accounts_calls(addresses, CONFIRMED)]
    replies = [_ask(one, calls) for one in nodes]
    genesis_hashes = tuple(_genesis_hash(answers) for answers in replies)
    said = [
        _read_accounts(answers or [], addresses, expected) if (found or "").startswith(expected.reference) else None
        for answers, found in zip(replies, genesis_hashes, strict=True)
    ]
    known = [found for found in said if found is not None]
    return Inspection(expected, genesis_hashes, _agree(known) if known else None, find_outvoted(said))


def read_genesis_hashes(nodes: Sequence[Nodes]) -> tuple[str | None, ...]:
    """Ask every node for its genesis hash; None: the node is away."""
    return tuple(_genesis_hash(_ask(one, [_GENESIS])) for one in nodes)


def _agree(known: Sequence[Accounts]) -> Accounts:
    """Take what most nodes say; their slots differ, and one of them alone says nothing of how far the chain is."""
    agreed = most_common(known)
    return replace(agreed, slot=confirmed_by_two(one.slot for one in known if one == agreed))


def _addresses(expected: Expected) -> list[str]:
    """List the addresses to read: multisigs, mints, and the possible accounts under either token program."""
    accounts = possible_accounts(expected.signers, list(expected.tokens.values()))
    return list(dict.fromkeys([*expected.escrows.values(), *expected.tokens.values(), *accounts]))


def _ask(node: Nodes, calls: list[Any]) -> list[Any] | None:
    try:
        return node.ask(calls)
    except ChainUnavailable:
        return None


def _genesis_hash(answers: list[Any] | None) -> str | None:
    try:
        return None if answers is None else read_hash(answers[0])
    except (ValueError, TypeError):
        return None


def _read_accounts(answers: list[Any], addresses: Sequence[str], expected: Expected) -> Accounts | None:
    """Read the accounts from a node's answers; None if it does not know them."""
    if any(isinstance(answer, RpcError) for answer in answers):
        return None
    try:
        slot, there = int(answers[1]), read_accounts(answers[2:], addresses)
    except (ValueError, TypeError, KeyError, IndexError):
        return None
    return Accounts(slot, tuple(_find_troubles(there, expected)), tuple(_find_tokens(there, expected)))


def _find_troubles(there: Mapping[str, Account | None], expected: Expected) -> Iterator[str]:
    wanted = expected.signers.multisig_data
    for program, escrow in expected.escrows.items():
        found = there[escrow]
        if found is None or not found.data:
            yield f"There is no escrow at {escrow}: {_DEPLOY}."
        elif (found.owner, found.data) != (program, wanted):
            yield f"The account {escrow} is not the escrow of our relayer, policy signer and owner."


def _find_tokens(there: Mapping[str, Account | None], expected: Expected) -> Iterator[Token]:
    mints = {asset: read_asset_mint(asset, address, there[address]) for asset, address in expected.tokens.items()}
    accounts = escrow_addresses(expected.signers, expected.tokens, mints)
    for asset, mint in mints.items():
        address = accounts.get(asset)
        account = None if address is None else there[address]
        objection = mint.objection or find_account_objection(asset, account)
        trouble = None
        if account is not None and objection is None:
            trouble = _find_trouble(asset, account, expected.escrows[mint.program], expected.tokens[asset])
        yield Token(asset, expected.tokens[asset], mint.program, mint.decimals, objection, address, trouble)


def _find_trouble(asset: Asset, account: Account, escrow: str, mint: str) -> str | None:
    """Explain what is wrong with the escrow's account of an asset: only two keys together may move its holdings."""
    found = read_token_account(account)
    wrongs = {
        "is not initialised": not found.is_initialised,
        f"belongs to {found.owner}": found.owner != escrow,
        f"is of the mint {found.mint}": found.mint != mint,
        "may be spent from by a delegate": found.has_delegate,
        "may be closed by another": found.has_close_authority,
        "does not hold wrapped SOL": (found.reserve_lamports is not None) != is_native(mint),
    }
    wrong = next((text for text, is_so in wrongs.items() if is_so), None)
    return f"The escrow's account for {asset} {wrong}." if wrong else None

"""The configuration of a chain, the state found on it, and the differences that forbid payments there. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chains.port import ChainUnavailable
from chains.rpc.agreement import are_outvoted
from chains.solana.derivation import TOKEN_2022_PROGRAM, TOKEN_PROGRAM, TOKEN_PROGRAMS, EscrowSigners
from foundation.kernel.assets import Asset

_NAMES = {str(TOKEN_PROGRAM): "Token", str(TOKEN_2022_PROGRAM): "Token-2022"}


@dataclass(frozen=True, slots=True)
class Expected:
    """The configuration. The chain's genesis hash begins with `reference`."""

    reference: str
    escrow: str
    tokens: Mapping[Asset, str]
    signers: EscrowSigners
    first_block: int = 0

    @property
    def escrows(self) -> dict[str, str]:
        """The escrow's multisigs, by their token program."""
        return {str(program): str(self.signers.escrow(program)) for program in TOKEN_PROGRAMS}


@dataclass(frozen=True, slots=True)
class Token:
    """An asset's mint, and the escrow's account that holds it; None: units of this mint cannot be counted as the asset.

    `objection`: why this asset is not paid with; other assets are not affected. `trouble`: why the account is not the
    escrow's alone.
    """

    asset: Asset
    address: str
    program: str
    decimals: int
    objection: str | None
    account: str | None
    trouble: str | None


@dataclass(frozen=True, slots=True)
class Accounts:
    """The state of the escrow's accounts as a node says, at a slot, or at the one that several have.

    `troubles` are those of its multisigs.
    """

    slot: int = field(compare=False)
    troubles: tuple[str, ...]
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """The state that was found on the chain.

    `genesis_hashes` has one for each node, None if it is away; `accounts` is what most nodes of the right chain say.
    `outvoted` are those that say otherwise, by position.
    """

    expected: Expected
    genesis_hashes: tuple[str | None, ...]
    accounts: Accounts | None
    outvoted: Sequence[int] = ()

    @property
    def node_count(self) -> int:
        return len(self.genesis_hashes)

    @property
    def answering(self) -> int:
        """The number of nodes that answer."""
        return sum(found is not None for found in self.genesis_hashes)

    def find_mismatches(self) -> list[str]:
        """Return a sentence for each difference that forbids all payments on the chain, the most serious first.

        An objection to one asset is not among them: it forbids payments in that asset only.

        Raises:
            ChainUnavailable: no node knows the accounts, and none is of another chain.
        """
        found = find_wrong_chain_nodes(self.genesis_hashes, self.expected.reference)
        if self.accounts is None:
            if not found:
                raise ChainUnavailable("No node answers what the escrow and the tokens are.")
            return found
        # A node of another chain is not asked anything else: where two others agree, it stops nothing.
        found = [] if are_outvoted(len(found), self.answering) else found
        derived = self.expected.escrows[str(TOKEN_PROGRAM)]
        if objection := self.expected.signers.objection:
            found.append(objection)
        if self.expected.escrow != derived:
            found.append(
                f"The escrow of our relayer, policy signer and owner is {derived}, not {self.expected.escrow}."
            )
        if self.expected.first_block > self.accounts.slot:
            first = self.expected.first_block
            found.append(f"The escrow's first block is said to be {first}; the newest is {self.accounts.slot}.")
        return [*found, *self.accounts.troubles, *(token.trouble for token in self.accounts.tokens if token.trouble)]

    def find_foreign(self) -> list[str]:
        """Return the same: the escrow's accounts are made of its signers, and nobody can pause it."""
        return self.find_mismatches()

    def find_objections(self) -> list[str]:
        """Return a sentence for each asset that is not paid with, as most nodes say."""
        return [token.objection for token in (self.accounts.tokens if self.accounts else ()) if token.objection]

    def describe(self) -> Iterator[tuple[str, str]]:
        """Describe the state for people, as pairs of a name and a text."""
        for program, escrow in self.expected.escrows.items():
            yield "escrow", f"{escrow} ({_NAMES[program]} program)"
        signers = self.expected.signers
        yield "signers", f"relayer {signers.relayer} and policy signer {signers.policy_signer}, always both"
        yield "owner", f"{signers.owner}, takes money out together with either of them"
        for token in self.accounts.tokens if self.accounts else ():
            yield token.asset, _line(token)

    def as_json(self) -> dict[str, Any]:
        """Describe the state for programs, as JSON."""
        tokens = self.accounts.tokens if self.accounts else ()
        return {
            "escrow": self.expected.escrow,
            "escrows": list(self.expected.escrows.values()),
            "relayer": str(self.expected.signers.relayer),
            "policySigner": str(self.expected.signers.policy_signer),
            "owner": str(self.expected.signers.owner),
            "tokens": [
                {
                    "asset": token.asset,
                    "address": token.address,
                    "program": token.program,
                    "decimals": token.decimals,
                    "depositAddress": token.account,
                    "objection": token.objection,
                }
                for token in tokens
            ],
        }


def find_wrong_chain_nodes(genesis_hashes: Sequence[str | None], reference: str) -> list[str]:
    """Return a sentence for each node that belongs to another chain."""
    return [
        f"Node {number} of {len(genesis_hashes)} is of the chain {found}, not of {reference}…."
        for number, found in enumerate(genesis_hashes, 1)
        if found is not None and not found.startswith(reference)
    ]


def _line(token: Token) -> str:
    parts = [token.address, f"{_NAMES.get(token.program, 'no token')} program, {token.decimals} decimals"]
    parts += [f"deposits to {token.account}"] if token.account else []
    return ", ".join([*parts, *([f"not paid with: {token.objection}"] if token.objection else [])])

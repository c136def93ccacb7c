"""What is configured of a chain, what was found on it, and what of that forbids paying there. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allowance.kernel.assets import Asset
from chains.port import ChainUnavailable
from chains.solana.derivation import TOKEN_2022_PROGRAM, TOKEN_PROGRAM, TOKEN_PROGRAMS, EscrowSigners

_NAMES = {str(TOKEN_PROGRAM): "Token", str(TOKEN_2022_PROGRAM): "Token-2022"}


@dataclass(frozen=True, slots=True)
class Expected:
    """What is configured. `reference` is what the chain's genesis hash begins with."""

    reference: str
    escrow: str
    tokens: Mapping[Asset, str]
    signers: EscrowSigners

    @property
    def escrows(self) -> dict[str, str]:
        """The escrow's multisigs, by the program that each is of."""
        return {str(program): str(self.signers.escrow(program)) for program in TOKEN_PROGRAMS}


@dataclass(frozen=True, slots=True)
class Token:
    """An asset's mint, and the account of the escrow that holds it; None: nothing is held of what cannot be counted.

    `objection`: why it is not paid with, which leaves the others alone. `trouble`: why its account is not the escrow's.
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
    """What one node says of the escrow's accounts; `troubles` of its multisigs."""

    troubles: tuple[str, ...]
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found.

    `genesis_hashes` by node, None: it is away; `accounts` by a node of the right chain, if there is one.
    """

    expected: Expected
    genesis_hashes: tuple[str | None, ...]
    accounts: Accounts | None

    @property
    def node_count(self) -> int:
        return len(self.genesis_hashes)

    @property
    def answering(self) -> int:
        """How many nodes answer."""
        return sum(found is not None for found in self.genesis_hashes)

    def find_mismatches(self) -> list[str]:
        """Say in a sentence each what forbids paying here, the gravest first. An asset alone is refused by itself.

        Raises:
            ChainUnavailable: no node says what is there, and none is of another chain.
        """
        found = find_strangers(self.genesis_hashes, self.expected.reference)
        if self.accounts is None:
            if not found:
                raise ChainUnavailable("No node says what the escrow and the tokens are.")
            return found
        derived = self.expected.escrows[str(TOKEN_PROGRAM)]
        if objection := self.expected.signers.objection:
            found.append(objection)
        if self.expected.escrow != derived:
            found.append(
                f"The escrow of our relayer, policy signer and owner is {derived}, not {self.expected.escrow}."
            )
        return [*found, *self.accounts.troubles, *(token.trouble for token in self.accounts.tokens if token.trouble)]

    def lines(self) -> Iterator[tuple[str, str]]:
        """Tell people what was found, in pairs of a name and a text."""
        for program, escrow in self.expected.escrows.items():
            yield "escrow", f"{escrow} ({_NAMES[program]} program)"
        signers = self.expected.signers
        yield "signers", f"relayer {signers.relayer} and policy signer {signers.policy_signer}, always both"
        yield "owner", f"{signers.owner}, takes money out together with either of them"
        for token in self.accounts.tokens if self.accounts else ():
            yield token.asset, _line(token)

    def present(self) -> dict[str, Any]:
        """Tell programs what was found."""
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


def find_strangers(genesis_hashes: Sequence[str | None], reference: str) -> list[str]:
    """Say which nodes are of another chain."""
    return [
        f"Node {number} of {len(genesis_hashes)} is of the chain {found}, not of {reference}…."
        for number, found in enumerate(genesis_hashes, 1)
        if found is not None and not found.startswith(reference)
    ]


def _line(token: Token) -> str:
    parts = [token.address, f"{_NAMES.get(token.program, 'no token')} program, {token.decimals} decimals"]
    parts += [f"deposits to {token.account}"] if token.account else []
    return ", ".join([*parts, *([f"not paid with: {token.objection}"] if token.objection else [])])

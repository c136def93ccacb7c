"""The configuration of a chain, the state found on it, and the differences that forbid payments there. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chains.evm.found_tokens import Token
from chains.port import ChainUnavailable
from chains.rpc.agreement import are_outvoted
from foundation.kernel.assets import Asset


@dataclass(frozen=True, slots=True)
class Roles:
    """The addresses that the escrow must know: our policy signer, and the relayers in rotation."""

    policy_signer: str
    relayers: tuple[str, ...]


# What the escrow calls itself (EIP-712): signatures are made for this name and version.
ESCROW_DOMAIN = ("Allowance Escrow", "1")
_NOBODY = "0x" + "0" * 40


@dataclass(frozen=True, slots=True)
class Expected:
    """The configuration. Without `roles`, the escrow's roles are not compared; without `owner`, that it is that one."""

    chain_id: int
    escrow: str
    tokens: Mapping[Asset, str]
    roles: Roles | None
    first_block: int = 0
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class Contracts:
    """The state of the contracts as a node says. None: the contract does not answer as an escrow does.

    `newest_block`: its own, or the one that several have; `domain`: the name and the version that the escrow gives
    itself; `most_together`: how many payments it makes at once.
    """

    newest_block: int = field(compare=False)
    has_escrow: bool
    domain: tuple[str, str] | None
    policy_signer: str | None
    owner: str | None
    is_paused: bool | None
    enabled_relayers: frozenset[str]
    tokens: tuple[Token, ...]
    most_together: int | None = None


@dataclass(frozen=True, slots=True)
class Inspection:
    """The state that was found on the chain.

    `chain_ids` has one id for each node, None if it is away; `contracts` is what most nodes of the right chain say.
    `outvoted` are those that say otherwise, by position.
    """

    expected: Expected
    chain_ids: tuple[int | None, ...]
    contracts: Contracts | None
    outvoted: Sequence[int] = ()

    @property
    def node_count(self) -> int:
        return len(self.chain_ids)

    @property
    def answering(self) -> int:
        """The number of nodes that answer."""
        return sum(chain_id is not None for chain_id in self.chain_ids)

    def find_mismatches(self) -> list[str]:
        """Return a sentence for each difference that forbids all payments on the chain, the most serious first.

        An objection to one asset is not among them: it forbids payments in that asset only.

        Raises:
            ChainUnavailable: no node knows the contracts, and none is of another chain.
        """
        found = self._find_differences()
        if self.contracts is not None and self._is_escrow(self.contracts):
            found += self._find_closed(self.contracts)
        return found

    def find_foreign(self) -> list[str]:
        """Return a sentence for each difference by which the chain or the escrow is not the configured one.

        Its owner is among them. An escrow that changes hands goes on paying, and no release passes until the settings
        say so, too.

        Raises:
            ChainUnavailable: as of `find_mismatches`.
        """
        found = self._find_differences()
        if self.contracts is not None and self._is_escrow(self.contracts):
            found += self._find_other_owner(self.contracts)
        return found

    def _find_differences(self) -> list[str]:
        found = find_wrong_chain_nodes(self.chain_ids, self.expected.chain_id)
        if self.contracts is not None:
            # A node of another chain is not asked anything else: where two others agree, it stops nothing.
            found = [] if are_outvoted(len(found), self.answering) else found
            found += self._find_strange(self.contracts)
        elif not found:
            raise ChainUnavailable("No node answers what the escrow and the tokens are.")
        return found

    def find_objections(self) -> list[str]:
        """Return a sentence for each asset that is not paid with, as most nodes say."""
        return [token.objection for token in (self.contracts.tokens if self.contracts else ()) if token.objection]

    def describe(self) -> Iterator[tuple[str, str]]:
        """Describe the state for people, as pairs of a name and a text."""
        escrow, roles, contracts = self.expected.escrow, self.expected.roles, self.contracts
        if contracts is None:
            yield "escrow", escrow
            return
        yield "escrow", f"{escrow}, owner {contracts.owner}, {'paused' if contracts.is_paused else 'not paused'}"
        if roles is not None:
            is_ours = contracts.policy_signer == roles.policy_signer
            yield "signer", f"{contracts.policy_signer}, {'ours' if is_ours else f'ours is {roles.policy_signer}'}"
            yield "relayers", f"{len(contracts.enabled_relayers)} of {len(roles.relayers)} enabled"
        for token in contracts.tokens:
            yield token.asset, token.describe()

    def as_json(self) -> dict[str, Any]:
        """Describe the state for programs, as JSON."""
        contracts = self.contracts
        if contracts is None:
            return {"escrow": self.expected.escrow}
        return {
            "escrow": self.expected.escrow,
            "owner": contracts.owner,
            "paused": contracts.is_paused,
            "policySigner": contracts.policy_signer,
            "relayersEnabled": len(contracts.enabled_relayers),
            "tokens": [token.as_json() for token in contracts.tokens],
        }

    @staticmethod
    def _is_escrow(contracts: Contracts) -> bool:
        return contracts.has_escrow and contracts.policy_signer is not None and contracts.domain is not None

    def _find_strange(self, contracts: Contracts) -> Iterator[str]:
        roles, newest = self.expected.roles, contracts.newest_block
        if not self._is_escrow(contracts):
            yield f"There is no escrow at {self.expected.escrow}."
            return
        if contracts.domain != ESCROW_DOMAIN:
            domain = " ".join(contracts.domain or ())
            yield f"The contract at {self.expected.escrow} is {domain}, not {' '.join(ESCROW_DOMAIN)}."
        if self.expected.first_block > newest:
            yield f"The escrow's first block is said to be {self.expected.first_block}; the newest is {newest}."
        if roles is not None:
            if contracts.policy_signer != roles.policy_signer:
                yield f"The escrow's policy signer is {contracts.policy_signer}, ours is {roles.policy_signer}."
            disabled = [one for one in roles.relayers if one not in contracts.enabled_relayers]
            if disabled:
                # A single one is enough to stop: a payment through it would be approved, and revert.
                yield (
                    f"{len(disabled)} of {len(roles.relayers)} relayers are not enabled on the escrow, {disabled[0]} "
                    "first: its owner enables them (setRelayer), or manage.py relayers --disable takes them out."
                )

    def _find_other_owner(self, contracts: Contracts) -> Iterator[str]:
        """Find that somebody else, nobody, or a key that processes hold can take everything out."""
        owner, roles = contracts.owner, self.expected.roles
        if self.expected.owner not in (None, owner):
            yield f"The escrow's owner is {owner}, not {self.expected.owner}."
        elif owner == _NOBODY:
            yield "The escrow's owner is nobody: it can never be paused, and what is left in it never be taken out."
        elif roles is not None and owner in (roles.policy_signer, *roles.relayers):
            yield f"The escrow's owner is {owner}, a key of our processes: whoever has it takes everything."

    def _find_closed(self, contracts: Contracts) -> Iterator[str]:
        """Find what the owner has closed; the roles need not be known for a look at one payment."""
        if self.expected.roles is not None:
            if contracts.is_paused:
                # A payment would be approved now, revert, and be given back long after.
                yield "The escrow is paused: its owner lets it go on (unpause)."
            if contracts.tokens and not any(token.daily_cap for token in contracts.tokens):
                yield "The escrow's daily cap is zero for every token: its owner sets them (setDailyCap)."


def find_wrong_chain_nodes(chain_ids: Sequence[int | None], expected: int) -> list[str]:
    """Return a sentence for each node that belongs to another chain."""
    return [
        f"Node {number} of {len(chain_ids)} is of chain {chain_id}, not of {expected}."
        for number, chain_id in enumerate(chain_ids, 1)
        if chain_id not in (expected, None)
    ]

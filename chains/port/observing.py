"""The protocols that read a chain for what is decided and booked later. All raise `ChainUnavailable`: see `adapter`."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol

from allowance.kernel.assets import Asset
from chains.port.escrow import EscrowSearch
from chains.port.transactions import (
    Finality,
    IncludedPayment,
    RelayerState,
)


class Observer(Protocol):
    """Reads what payments are prepared from, and compares the chain with the configuration.

    `most_relayers`: how many relayers the escrow can know; None: any number.
    """

    @property
    def most_relayers(self) -> int | None: ...

    def observe(self) -> dict[str, Any]:
        """Read what `prepare` needs to know of the chain, as JSON."""

    def observe_relayers(self, addresses: Sequence[str]) -> dict[str, RelayerState]:
        """Read nonces and gas money of relayers, by address."""

    def find_mismatches(self, relayers: Sequence[str]) -> list[str]:
        """Compare the chain with the configuration; a sentence for each difference that forbids paying here.

        `relayers`: the addresses that submit here, which the escrow must allow.
        """


class PayeeObserver(Protocol):
    """Reads whether payees can be paid, on a chain where that depends on their accounts."""

    def observe_payees(
        self,
        payees: Sequence[tuple[str, Asset]],
        known: Mapping[str, Mapping[str, Any]],
        find_included: Callable[[Sequence[str]], Sequence[IncludedPayment]],
    ) -> dict[str, dict[str, Any]]:
        """Read what `prepare` needs to know of payees (address, asset), as JSON by address; `known`: the state before.

        `find_included` finds the recent payments to some addresses that are in a block. Where nodes contradict each
        other about a payee, its known state stays.
        """

    def find_objection(self, address: str) -> str | None:
        """Say in a sentence why an address is not to be paid, as far as the chain can tell; None: pay it."""


class EscrowReader(Protocol):
    """Reads an escrow's history and holdings; its history begins at `first_block`.

    Deposits are searched up to `deposits_trail` blocks before the final one: nodes may index later which accounts a
    block is about. `most_blocks_behind`: how many blocks the chain makes in less than ten minutes.
    """

    escrow: str
    first_block: int
    deposits_trail: int
    most_blocks_behind: int

    def search_escrow(
        self, first_block: int, last_block: int, find_ours: Callable[[Sequence[str]], set[str]]
    ) -> EscrowSearch:
        """Search the escrow's history in a range of final blocks; every node that answers is heard.

        `find_ours` tells which of some transactions are known to have paid: those need not be looked at. A range may be
        too long for a node: then this raises `ChainUnavailable`, too.
        """

    def find_holdings(self, block_number: int) -> dict[Asset, Decimal]:
        """Read what the escrow holds of each served asset as of a final block, in units of the asset."""

    def peek_escrow(self, finality: Finality) -> EscrowSearch:
        """Look at what left the escrow in blocks that are not final yet, as far as several nodes agree on it."""

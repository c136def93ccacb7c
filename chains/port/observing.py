"""The protocols that read a chain for later decisions and bookings. All raise `ChainUnavailable`: see `adapter`."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol

from chains.port.escrow import EscrowSearch
from chains.port.gas import RelayerState
from chains.port.node_health import Contradiction
from chains.port.transactions import IncludedPayment
from foundation.kernel.assets import Asset


class Observer(Protocol):
    """Reads the state from which payments are prepared."""

    def observe(self, known: Mapping[str, Any] | None = None, *, checks_tokens: bool = True) -> dict[str, Any]:
        """Read the state of the chain that `prepare` needs, as JSON.

        `known` is the state before: where too few nodes agree on a token, its known state stays. Without
        `checks_tokens`, that of all tokens stays, if reading them takes calls of their own.
        """

    def observe_relayers(self, addresses: Sequence[str]) -> dict[str, RelayerState]:
        """Read the nonces and the gas money of relayers, by address."""


class Inspector(Protocol):
    """Compares the chain with the configuration, and the nodes with each other."""

    def find_mismatches(self, relayers: Sequence[str]) -> list[str]:
        """Compare the chain with the configuration; returns a sentence for each difference that forbids payments.

        `relayers`: the addresses that submit on this chain, which the escrow must allow.
        """

    def find_foreign(self, relayers: Sequence[str]) -> list[str]:
        """Find what shows that the chain or the escrow is not the configured one; returns a sentence for each thing.

        They are among the mismatches. That the owner has paused the escrow, or lets it pay nothing, is none of them.
        """

    def take_contradictions(self) -> Sequence[Contradiction]:
        """Return which nodes have contradicted the others since this was last called. It asks no node."""


class PayeeObserver(Protocol):
    """Reads whether payees can be paid, on a chain where this depends on their accounts."""

    def observe_payees(
        self,
        payees: Sequence[tuple[str, Asset]],
        known: Mapping[str, Mapping[str, Any]],
        find_included: Callable[[Sequence[str]], Sequence[IncludedPayment]],
    ) -> dict[str, dict[str, Any]]:
        """Read the state of payees (address, asset) that `prepare` needs, as JSON by address.

        `known` is the state before. `find_included` finds the recent payments to given addresses that are in a block.
        Where nodes contradict each other about a payee, its known state stays.
        """

    def find_objection(self, address: str) -> str | None:
        """Explain in a sentence why an address must not be paid, as far as the chain shows; None: it may be paid."""


class EscrowReader(Protocol):
    """Reads the history of the escrow at `address`, which begins at `first_block`, and its holdings.

    Deposits are searched up to `deposits_trail` blocks before the final block: nodes may index the accounts of a block
    later than the block. `most_blocks_behind`: a number of blocks that the chain makes in less than ten minutes.
    """

    address: str
    first_block: int
    deposits_trail: int
    most_blocks_behind: int

    def search(
        self, first_block: int, last_block: int, find_our_payments: Callable[[Sequence[str]], set[str]]
    ) -> EscrowSearch:
        """Search the escrow's history in a range of final blocks, on every node that answers; most must say the same.

        `find_our_payments` returns those of given transactions that are known as our payments: these need not be read.
        If the range is too long for too many nodes, this raises `ChainUnavailable`, too. A single block is not.
        """

    def find_holdings(self, block_number: int) -> dict[Asset, Decimal]:
        """Read the escrow's holdings of each served asset as of a final block, in units of the asset.

        Where there is no token at an asset's address, it holds nothing; an asset whose token cannot be asked is left
        out.
        """

    def peek(self, first_block: int, last_block: int) -> EscrowSearch:
        """Find the outflows and voids in blocks that are not final yet, as far as several nodes agree on them.

        If the range is too long, this raises `ChainUnavailable`, too.
        """

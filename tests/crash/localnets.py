"""A chain of a run as its own node shows it, with nothing of the product's in between: what every kind must tell."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

from foundation.kernel.assets import Asset


@dataclass(frozen=True, slots=True)
class Paid:
    """What left the escrow for somebody, in base units; the asset is None for what is not served.

    `escrow_id` is what the chain knows the payment by.
    """

    escrow_id: str
    tx: str
    asset: Asset | None
    recipient: str
    units: int


@dataclass(frozen=True, slots=True)
class Deposited:
    """What came into the escrow for an agent, in base units."""

    tx: str
    log_index: int
    agent: str
    asset: Asset | None
    units: int


@dataclass(frozen=True, slots=True)
class Asking:
    """How the product's requests are told apart: the methods that all stand in one.

    `seek`: where transactions are. `prove`: what became of them for good. `observe`: what signing needs to know.
    """

    send: tuple[str, ...]
    seek: tuple[str, ...]
    prove: tuple[str, ...]
    observe: tuple[str, ...]
    deposits: tuple[str, ...]


class Localnet(Protocol):
    """One chain of a run. `assets` are those that are paid with here; `server` runs its node."""

    alias: str
    caip2: str
    asking: Asking

    @property
    def assets(self) -> Sequence[Asset]: ...

    @property
    def server(self) -> ModuleType: ...

    def ask(self, method: str, *parameters: Any) -> Any:
        """Ask the node. Raises OSError and LocalnetError."""

    def read_offer(self, call: dict[str, Any]) -> tuple[str, bytes]:
        """Read the transaction that a call offers: its id and its bytes."""

    def new_recipients(self, asset: Asset) -> list[str]:
        """Make addresses that nobody has; some may be such that every payment to them fails."""

    def count_newest(self) -> int:
        """Count the transactions of the newest block."""

    def reorganise(self, depth: int, *, keeps_transactions: bool) -> None:
        """Replace the newest blocks; their transactions vanish, or wait for a block again."""

    def find_paid(self) -> list[Paid]:
        """Read all that ever left the escrow."""

    def find_deposited(self) -> list[Deposited]:
        """Read all that ever came into the escrow by a deposit."""

    def held(self, asset: Asset) -> int:
        """Read what the escrow holds, in base units."""

    def balance_of(self, owner: str, asset: Asset) -> int:
        """Read what somebody has, in base units."""

    def find_gaps(self) -> Iterator[str]:
        """Tell, in sentences, what of the relayers does not fit the chain."""

    def has_come_to_rest(self) -> bool:
        """Tell whether all that the relayers sent is in final blocks."""

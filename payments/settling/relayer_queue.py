"""Read each relayer's queue: what the chain says of the relayer, beside its open transactions."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from django.conf import settings
from django.db.models import Count

from chains.port import ChainAdapter, PaymentCosts, RelayerState
from payments.lifecycle import OPEN_STATES, SettlementState
from payments.models import Relayer, Settlement
from payments.settling.relayers import configured_relayers, has_key_of

# A relayer is out of rotation when it cannot pay for a full queue; one that can pay for fewer of them will soon be.
QUEUES_OF_A_FUNDED_RELAYER = 4
_UNCONFIRMED = (SettlementState.SIGNED, SettlementState.BROADCAST)


@dataclass(frozen=True, slots=True)
class RelayerQueue:
    """A relayer as the chain sees it now, and the numbers of its open transactions.

    `has_key`: we have its key. `drift`: how many nonces were given out that neither a block nor a waiting transaction
    uses; below zero, the chain is ahead. On a chain without nonces `mined_nonce` is None and `drift` is 0.
    `payments_now`, `payments_at_highest`: for how many payments the gas money lasts, if each costs the most that it can
    cost at the price now, or at the highest price that is allowed.
    """

    relayer: Relayer
    has_key: bool
    balance: Decimal
    mined_nonce: int | None
    waiting: int
    included: int
    payments_now: int
    payments_at_highest: int

    @property
    def is_seen(self) -> bool:
        """Return whether the watcher, which a worker runs, has looked at it."""
        return self.relayer.seen_at is not None

    @property
    def drift(self) -> int:
        if self.mined_nonce is None or self.relayer.next_nonce is None:
            return 0
        return self.relayer.next_nonce - self.mined_nonce - self.waiting

    @property
    def remark(self) -> str:
        """Say why it gets no payments; "" if it does."""
        if not self.relayer.is_enabled:
            return "disabled"
        if not self.is_seen:
            return "waits for the watcher"
        if not self.has_key:
            return "of another RELAYER_SEED"
        if not self.relayer.is_funded:
            return "low on gas money"
        next_nonce, funded_until = self.relayer.next_nonce, self.relayer.funded_until
        is_committed = next_nonce is not None and funded_until is not None and next_nonce >= funded_until
        return "its gas money is needed for its open transactions" if is_committed else ""


def well_funded_payments() -> int:
    """Return for how many payments a relayer must have gas money so that nobody is told to send some."""
    most: int = settings.MAX_IN_FLIGHT_PER_RELAYER
    return QUEUES_OF_A_FUNDED_RELAYER * most


def read_relayer_queues(chain: str, adapter: ChainAdapter) -> list[RelayerQueue]:
    """Read the queues of a chain's relayers, each account's once, beside what the chain says of them now.

    A relayer that the watcher has not registered yet is among them, too: its row is not saved.

    Raises:
        ChainUnavailable: no node answered.
    """
    registered = list(Relayer.objects.filter(chain=chain).values_list("address", flat=True))
    new = {number: one for number, one in configured_relayers(adapter).items() if one not in registered}
    # The chain is read first: what is mined meanwhile shows as a passing drift below zero, never as a gap.
    states = adapter.observer.observe_relayers([*registered, *new.values()])
    costs = adapter.preparer.find_payment_costs(adapter.observer.observe())
    rows = Settlement.objects.filter(chain=chain, state__in=OPEN_STATES).order_by()
    counts = {
        (address, state): count
        for address, state, count in rows.values_list("relayer__address", "state").annotate(count=Count("pk"))
    }
    relayers = {one.address: one for one in Relayer.objects.filter(chain=chain, address__in=registered)}
    for number, address in new.items():
        relayers[address] = Relayer(chain=chain, number=number, address=address, next_nonce=None)
    return [_read_queue(one, adapter, states[address], costs, counts) for address, one in relayers.items()]


def _read_queue(
    relayer: Relayer,
    adapter: ChainAdapter,
    state: RelayerState,
    costs: PaymentCosts,
    counts: Mapping[tuple[str | None, str], int],
) -> RelayerQueue:
    return RelayerQueue(
        relayer,
        has_key_of(relayer, adapter),
        state.balance,
        None if state.nonces is None else state.nonces.mined,
        waiting=sum(counts.get((relayer.address, one), 0) for one in _UNCONFIRMED),
        included=counts.get((relayer.address, SettlementState.INCLUDED), 0),
        payments_now=int(state.spendable // costs.now),
        payments_at_highest=int(state.spendable // costs.highest),
    )

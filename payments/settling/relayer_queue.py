"""Read each relayer's queue: what the chain says of the relayer, beside its open transactions."""

from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Count

from chains.port import ChainAdapter
from payments.lifecycle import OPEN_STATES, SettlementState
from payments.models import Relayer, Settlement
from payments.settling.relayers import has_key_of


@dataclass(frozen=True, slots=True)
class RelayerQueue:
    """A relayer as the chain sees it now, and the numbers of its open transactions.

    `has_key`: we have its key. `drift`: how many nonces were given out that neither a block nor a waiting transaction
    uses; below zero, the chain is ahead. On a chain without nonces `mined_nonce` is None and `drift` is 0.
    """

    relayer: Relayer
    has_key: bool
    balance: Decimal
    mined_nonce: int | None
    waiting: int
    included: int

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
        if not self.has_key:
            return "of another RELAYER_SEED"
        if not self.relayer.is_funded:
            return "low on gas money"
        next_nonce, funded_until = self.relayer.next_nonce, self.relayer.funded_until
        is_committed = next_nonce is not None and funded_until is not None and next_nonce >= funded_until
        return "its gas money is needed for its open transactions" if is_committed else ""


def read_relayer_queues(chain: str, adapter: ChainAdapter) -> list[RelayerQueue]:
    """Read the queues of a chain's relayers, beside what the chain says of them now.

    Raises:
        ChainUnavailable: no node answered.
    """
    addresses = list(Relayer.objects.filter(chain=chain).values_list("address", flat=True))
    # The chain is read first: what is mined meanwhile shows as a passing drift below zero, never as a gap.
    states = adapter.observe_relayers(addresses)
    rows = Settlement.objects.filter(chain=chain, state__in=OPEN_STATES).order_by()
    counts = {
        (relayer_id, state): count
        for relayer_id, state, count in rows.values_list("relayer_id", "state").annotate(count=Count("pk"))
    }
    return [
        RelayerQueue(
            relayer,
            has_key_of(relayer, adapter),
            states[relayer.address].balance,
            nonces.mined if (nonces := states[relayer.address].nonces) else None,
            waiting=sum(counts.get((relayer.pk, s), 0) for s in (SettlementState.SIGNED, SettlementState.BROADCAST)),
            included=counts.get((relayer.pk, SettlementState.INCLUDED), 0),
        )
        for relayer in Relayer.objects.filter(chain=chain, address__in=addresses)
    ]

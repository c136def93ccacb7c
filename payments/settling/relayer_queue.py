"""The relayers as they stand in line: what the chain says of each, beside what it has under way here."""

from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Count

from chains.port import ChainAdapter
from payments.lifecycle import OPEN_STATES, SettlementState
from payments.models import Relayer, Settlement


@dataclass(frozen=True, slots=True)
class RelayerQueue:
    """A relayer as the chain sees it now, and the transactions that it has under way.

    `is_ours`: we have its key. `drift`: nonces given out that neither a block nor a waiting transaction has; below
    zero, the chain is ahead. On a chain without nonces `mined_nonce` is None, and nothing drifts.
    """

    relayer: Relayer
    is_ours: bool
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
        if not self.is_ours:
            return "of another RELAYER_SEED"
        if not self.relayer.is_funded:
            return "low on gas money"
        next_nonce, funded_until = self.relayer.next_nonce, self.relayer.funded_until
        is_taken_up = next_nonce is not None and funded_until is not None and next_nonce >= funded_until
        return "its gas money is taken up by what it has under way" if is_taken_up else ""


def read_relayer_queues(chain: str, adapter: ChainAdapter) -> list[RelayerQueue]:
    """Read the relayers of a chain, beside what the chain says of them now.

    Raises:
        ChainUnavailable: no node answered.
    """
    addresses = list(Relayer.objects.filter(chain=chain).values_list("address", flat=True))
    # The chain first: what is mined meanwhile shows as a passing drift below zero, never as a gap.
    sightings = adapter.observe_relayers(addresses)
    rows = Settlement.objects.filter(chain=chain, state__in=OPEN_STATES).order_by()
    counts = {
        (relayer_id, state): count
        for relayer_id, state, count in rows.values_list("relayer_id", "state").annotate(count=Count("pk"))
    }
    return [
        RelayerQueue(
            relayer,
            adapter.relayer_address(relayer.number) == relayer.address,
            sightings[relayer.address].balance,
            nonces.mined if (nonces := sightings[relayer.address].nonces) else None,
            waiting=sum(counts.get((relayer.pk, s), 0) for s in (SettlementState.SIGNED, SettlementState.BROADCAST)),
            included=counts.get((relayer.pk, SettlementState.INCLUDED), 0),
        )
        for relayer in Relayer.objects.filter(chain=chain, address__in=addresses)
    ]

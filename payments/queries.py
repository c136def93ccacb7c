"""Reads of how chains and payments fare."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet

from foundation.groups import outside_groups
from foundation.kernel.ids import first_id
from foundation.kernel.times import is_fresh
from ledger.models import Hold
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import ChainState, Leg, Payment, Reconciliation

# For how long a node that has contradicted the others is shown as one that does.
CONTRADICTS_FOR = timedelta(hours=1)


def is_on_chain_or_over(payment_id: str) -> bool:
    """Tell whether a transaction of a payment is in a block now, or the payment has come to its end."""
    included = Leg.objects.filter(
        payment=OuterRef("pk"), is_void=False, is_live=True, settlement__state=SettlementState.INCLUDED
    )
    return Payment.objects.filter(~Q(status=PaymentStatus.APPROVED) | Exists(included), pk=payment_id).exists()


def approved_within(payments: QuerySet[Payment], since: datetime | None, before: datetime | None) -> QuerySet[Payment]:
    """Select the payments that were approved from a moment until before another one; None: no bound.

    Their ids sort by when they were asked for. That was their approval, unless a person has approved them later.
    """
    if before is not None:
        is_early = Q(approved_at=None) | Q(approved_at__lt=before)
        payments = payments.filter(is_early, pk__lt=first_id("pay", before))
    if since is None:
        return payments
    first = first_id("pay", since)
    held = list(Hold.objects.filter(pk__lt=first, ended_at__gte=since).order_by("pk").values_list("pk", flat=True))
    if not held:
        return payments.filter(pk__gte=first)
    return payments.filter(Q(pk__gte=first) | Q(pk__in=held), pk__gte=held[0])


def find_newest_reconciliations() -> QuerySet[Reconciliation]:
    """Find the newest comparison of each chain and asset."""
    return Reconciliation.objects.order_by("chain", "asset", "-id").distinct("chain", "asset")


@dataclass(frozen=True, slots=True)
class ContradictingNode:
    """The `number`th of the `count` nodes of a chain has contradicted the others, the last time `at`, about this."""

    chain: str
    alias: str
    number: int
    count: int
    at: datetime
    about: str

    def __str__(self) -> str:
        """Describe it in a sentence, by its place in the variable: its address may hold a key."""
        return f"{self.alias}: node {self.number} of {self.count} contradicts the others about {self.about}."


def find_chain_states() -> dict[str, ChainState]:
    """Read the state of each chain that the watcher has seen."""
    with outside_groups():
        return {state.chain: state for state in ChainState.objects.order_by("chain")}


def find_contradicting_nodes(now: datetime) -> list[ContradictingNode]:
    """Find the nodes of served chains that have contradicted the others within the last hour."""
    states = {chain: state.contradictions for chain, state in find_chain_states().items()}
    found = [
        ContradictingNode(caip2, served.chain.alias, int(number), len(served.rpc_urls), _read_at(one), one["about"])
        for caip2, served in settings.CHAINS.items()
        for number, one in sorted(states.get(caip2, {}).items())
    ]
    return [one for one in found if one.number <= one.count and is_fresh(one.at, now, CONTRADICTS_FOR)]


def _read_at(contradiction: dict[str, str]) -> datetime:
    return datetime.fromisoformat(contradiction["at"])


@dataclass(frozen=True, slots=True)
class AssetOnChain:
    """An asset that a chain is configured with; `objection` says why it is out of service there, "" if it is not.

    `is_left_out`: because the operator says so.
    """

    chain: str
    alias: str
    asset: str
    objection: str
    is_left_out: bool

    @property
    def is_out_of_service(self) -> bool:
        """Whether something is wrong with it that nobody wants so."""
        return self.objection != "" and not self.is_left_out


def find_assets_on_chains() -> list[AssetOnChain]:
    """Find for every served chain which of its assets are paid with there, as the watcher last saw it."""
    states = {chain: state.state for chain, state in find_chain_states().items()}
    return [
        AssetOnChain(
            caip2,
            served.chain.alias,
            asset,
            served.find_objection(asset, states.get(caip2, {})) or "",
            asset in served.left_out,
        )
        for caip2, served in settings.CHAINS.items()
        for asset in served.tokens
    ]

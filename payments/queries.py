"""Reads of whether payments can be made, and of how chains and payments fare."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DatabaseError
from django.db.models import Exists, OuterRef, Q, QuerySet
from redis.exceptions import RedisError

from foundation.environment.process_types import ProcessType
from foundation.heartbeats import Heartbeat, read_heartbeats
from foundation.kernel.times import is_fresh, utc_now
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import ChainState, Payment, Reconciliation, Relayer, Settlement
from policy.models import SignerSwitch

# For how long a node that has contradicted the others is shown as one that does.
CONTRADICTS_FOR = timedelta(hours=1)


def is_on_chain_or_over(payment_id: str) -> bool:
    """Tell whether a transaction of a payment is in a block now, or the payment has come to its end."""
    included = Settlement.objects.filter(payment=OuterRef("pk"), is_void=False, state=SettlementState.INCLUDED)
    return Payment.objects.filter(~Q(status=PaymentStatus.APPROVED) | Exists(included), pk=payment_id).exists()


def find_newest_reconciliations() -> QuerySet[Reconciliation]:
    """Find the newest comparison of each chain and asset."""
    return Reconciliation.objects.order_by("chain", "asset", "-id").distinct("chain", "asset")


def find_troubled_chains() -> QuerySet[ChainState]:
    """Find the chains that a person has to look at: nothing is paid there, or the newest comparison raised an alarm.

    Annotated with `is_missing_money` and `denies_payments` (it does not confirm payments that are settled here).
    """
    newer = Reconciliation.objects.filter(chain=OuterRef("chain"), asset=OuterRef("asset"), id__gt=OuterRef("id"))
    newest = Reconciliation.objects.filter(~Exists(newer), chain=OuterRef("chain"))
    return (
        ChainState.objects.annotate(
            is_missing_money=Exists(newest.filter(drift__lt=0)), denies_payments=Exists(newest.exclude(unconfirmed=[]))
        )
        .filter(~Q(stopped_reason="") | ~Q(mismatch="") | Q(is_missing_money=True) | Q(denies_payments=True))
        .order_by("chain")
    )


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


def find_contradicting_nodes(now: datetime) -> list[ContradictingNode]:
    """Find the nodes of served chains that have contradicted the others within the last hour."""
    states = dict(ChainState.objects.exclude(contradictions={}).values_list("chain", "contradictions"))
    found = [
        ContradictingNode(caip2, served.chain.alias, int(number), len(served.rpc_urls), _read_at(one), one["about"])
        for caip2, served in settings.CHAINS.items()
        for number, one in sorted(states.get(caip2, {}).items())
    ]
    return [one for one in found if one.number <= one.count and is_fresh(one.at, now, CONTRADICTS_FOR)]


def _read_at(contradiction: dict[str, str]) -> datetime:
    return datetime.fromisoformat(contradiction["at"])


def find_unready() -> dict[str, str]:
    """Check each part that payments need; returns by its name what is wrong with it, "" if nothing is.

    An asset that is out of service on a chain is not among them, unless the chain has no other.
    """
    parts = {"database": "", **_broker_trouble()}
    try:
        parts["signer"] = _signer_trouble()
        for caip2, served in settings.CHAINS.items():
            parts[served.chain.alias] = _chain_trouble(caip2)
    except DatabaseError:
        parts["database"] = "unavailable"
    return parts


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


def find_assets_on_chains() -> list[AssetOnChain]:
    """Find for every served chain which of its assets are paid with there, as the watcher last saw it."""
    states = dict(ChainState.objects.values_list("chain", "state"))
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


def _broker_trouble() -> dict[str, str]:
    """Look whether the processes are there that payments need beside this one: without Redis nobody knows.

    Payees are told later while `webhooks` is away; payments go on.
    """
    try:
        heartbeats = read_heartbeats()
    except RedisError:
        return {"broker": "unavailable"}
    needed = (ProcessType.WORKER, ProcessType.BEAT)
    return {"broker": "", **{process: _absence(process, heartbeats) for process in needed}}


def _absence(process: ProcessType, heartbeats: list[Heartbeat]) -> str:
    own = [one for one in heartbeats if one.process is process]
    if any(one.is_lately for one in own):
        return ""
    return "has been away" if own else "has not been seen"


def _signer_trouble() -> str:
    switch = SignerSwitch.objects.first()
    return "" if switch and switch.is_signing else "out of service"


def _chain_trouble(chain: str) -> str:
    state = ChainState.objects.filter(chain=chain).first()
    age = timedelta(seconds=settings.CHAIN_STATE_MAX_AGE_S)
    if state is None or not is_fresh(state.observed_at, utc_now(), age):
        return "not observed lately"
    if state.mismatch:
        return "not what is configured"
    if state.stopped_reason:
        return "signing is stopped"
    served = settings.CHAINS[chain]
    if all(served.find_objection(asset, state.state) for asset in served.tokens):
        return "no asset is in service"
    if not Relayer.objects.filter(chain=chain, is_enabled=True, is_funded=True).exists():
        return "no relayer"
    return ""

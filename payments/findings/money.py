"""Money that is missing, promised too often, credited to nobody, or that left an escrow; escrows nobody compares."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Min, Sum

from chains.catalogue import alias_of
from foundation.console.figures import add_up, numbered
from foundation.findings import FINANCE, OPERATIONS, Finder, Finding, Kind, Page, Severity
from foundation.kernel.times import is_fresh, utc_now
from foundation.recent import Recent
from payments.findings.pages import (
    CHAINS,
    COMPARISONS,
    COMPARISONS_THERE,
    ON_THEIR_WAY,
    ON_THEIR_WAY_THERE,
    OPEN_OUTFLOWS,
    OPEN_OUTFLOWS_THERE,
    comparisons_of,
)
from payments.funding.pools import read_pools
from payments.models import Deposit, DepositState, Reconciliation, Verdict
from payments.queries import find_newest_reconciliations
from payments.reconciling.outflow_booking import find_open_outflows

_NOT_COMPARED_FOR = timedelta(minutes=10)
# The front page draws them, too: to read them takes longer than all else there.
recent_pools = Recent(read_pools)
MISSING = Kind(
    "missing",
    "Less is in the escrow than the ledger says: something left it that no payment of ours explains. Signing stops by "
    "itself where that happens, so that no more leaves. Payments that wait are safe; new ones there are not made.",
    "Do not start signing again yet. Look at each outflow in an explorer, and find out who sent it and why. If a key "
    "may have been taken, change it first. Then book each outflow, as an agent's money or as a loss; the next "
    "comparison (python manage.py reconcile) must add up. Only then start signing again: "
    "docs/operate/promises-exceed-holdings.md",
    "operate/promises-exceed-holdings",
    (OPEN_OUTFLOWS_THERE, COMPARISONS_THERE, ON_THEIR_WAY_THERE),
    (FINANCE, OPERATIONS),
)
UNCONFIRMED = Kind(
    "unconfirmed",
    "The ledger says that payments are settled, and the chain does not confirm them: a node lies or lags, or the chain "
    "was reorganized more deeply than is waited for.",
    "Compare the named payments with an explorer of somebody else. If they are there, take the node that denies them "
    "out. If they are not, stop signing on the chain, and tell whoever was to be paid.",
    "operate/lying-provider", (COMPARISONS_THERE, ON_THEIR_WAY_THERE), (FINANCE, OPERATIONS),
)  # fmt: skip
NOT_COMPARED = Kind(
    "comparisons",
    "Missing money would not be noticed meanwhile.",
    "Start worker and beat; python manage.py reconcile says why not",
    "operate/stuck-chain", (COMPARISONS_THERE,), told=(),
)  # fmt: skip
POOLS = Kind(
    "pools",
    "The agents' balances of this asset and what is promised are more than all escrows hold. If all were spent today, "
    "the last payments would find no money.",
    "See by the comparisons (python manage.py reconcile) which escrow lacks it and since when, then book what left it, "
    "or send what is missing to the escrow. Do not credit any agent by hand meanwhile: "
    "docs/operate/promises-exceed-holdings.md",
    "operate/promises-exceed-holdings",
    (COMPARISONS, OPEN_OUTFLOWS, Page("Agents and their balances", "policy_agent")),
    (FINANCE, OPERATIONS),
)
OUTFLOWS = Kind(
    "outflows",
    "Money left an escrow without a payment of the ledger. Until it is booked, the ledger says more than there is, and "
    "signing stays stopped on that chain.",
    "Look at each transaction in an explorer: who sent it, and to whom? If it was not one of you, change the keys. "
    "Then book it: as an agent's money, whose balance falls, or as a loss.",
    "operate/promises-exceed-holdings", (COMPARISONS, CHAINS, ON_THEIR_WAY), (FINANCE, OPERATIONS),
)  # fmt: skip
DEPOSITS = Kind(
    "deposits",
    "Money came into an escrow that names no agent of ours, or an asset that the agent does not have. It is safe "
    "there, and on no agent's balance.",
    "Find out whose it is by its sender, and credit it to that agent; otherwise leave it.",
    "console/agents", told=(FINANCE,),
)  # fmt: skip


def find_troubles_of_comparisons() -> Iterator[Finding]:
    """Find the chains where money is missing, where settled payments are not confirmed, and what was not compared."""
    newest: dict[str, list[Reconciliation]] = defaultdict(list)
    for row in find_newest_reconciliations():
        newest[row.chain].append(row)
    now = utc_now()
    for chain in sorted({*newest, *settings.CHAINS}):
        yield from _of_comparisons(chain, newest[chain])
        tokens = settings.CHAINS[chain].tokens if chain in settings.CHAINS else ()
        at = max((row.created_at for row in newest[chain] if row.asset in tokens), default=None)
        if tokens and not is_fresh(at, now, _NOT_COMPARED_FOR):
            since = f"since {at:%Y-%m-%d %H:%M} UTC" if at else "yet"
            says = f"{alias_of(chain)}: Its escrow was not compared with the ledger {since}."
            yield Finding(NOT_COMPARED, Severity.ERROR, says, comparisons_of(chain), chain, since=at)


def _of_comparisons(chain: str, rows: Sequence[Reconciliation]) -> Iterator[Finding]:
    missing = {row.asset: row.missing for row in rows if row.verdict is Verdict.MISSING}
    unconfirmed = sum(len(row.unconfirmed) for row in rows)
    alias, page = alias_of(chain), comparisons_of(chain)
    if missing:
        says = f"{alias}: Money is missing: {add_up(missing)}."
        yield Finding(MISSING, Severity.ERROR, says, page, chain, len(missing))
    if unconfirmed:
        not_confirmed = numbered(unconfirmed, "settled payment is", "settled payments are")
        yield Finding(UNCONFIRMED, Severity.ERROR, f"{alias}: {not_confirmed} not confirmed.", page, chain, unconfirmed)


def find_overdrawn_pools() -> Iterator[Finding]:
    """Find the assets of which more is promised than all escrows hold."""
    for pool in recent_pools.read(is_now=True):
        if pool.is_overdrawn:
            page = Page("Compare", "payments_reconciliation")
            yield Finding(POOLS, Severity.ERROR, f"Too much is promised: {pool}", page, pool.asset)


def find_unknown_outflows() -> Iterator[Finding]:
    """Find what left an escrow and nobody has booked."""
    moments = list(find_open_outflows().values_list("found_at", flat=True))
    if moments:
        sentence = numbered(len(moments), "outflow is not booked", "outflows are not booked")
        yield Finding(
            OUTFLOWS,
            Severity.ERROR,
            f"{sentence}: something left an escrow that the ledger does not know.",
            Page("Book", "payments_outflow", {"state": "open"}, acts="payments.change_outflow"),
            count=len(moments),
            since=min(moments),
        )


def find_deposits_aside() -> Iterator[Finding]:
    """Find the money that came in for nobody."""
    aside = Deposit.objects.filter(state=DepositState.ASIDE).order_by().values_list("asset")
    found: list[Any] = list(aside.annotate(Count("pk"), Min("found_at"), Sum("amount")))
    if found:
        count = sum(row[1] for row in found)
        sums = add_up({row[0]: row[3] for row in found if row[0] is not None})
        sentence = numbered(count, "deposit is set aside", "deposits are set aside") + (f": {sums}." if sums else ".")
        query = {"state__exact": DepositState.ASIDE}
        page = Page("Credit", "payments_deposit", query, acts="ledger.add_balancemovement")
        since = min(row[2] for row in found)
        yield Finding(DEPOSITS, Severity.WARNING, sentence, page, count=count, since=since)


FINDERS = (
    Finder(find_troubles_of_comparisons, (MISSING, UNCONFIRMED, NOT_COMPARED)),
    Finder(find_overdrawn_pools, (POOLS,)),
    Finder(find_unknown_outflows, (OUTFLOWS,)),
    Finder(find_deposits_aside, (DEPOSITS,)),
)

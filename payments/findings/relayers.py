"""Relayers that are short of gas money, and agents that have used up theirs."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db.models import Count, Q

from chains.catalogue import alias_of
from foundation.console.figures import numbered
from foundation.findings import Finder, Finding, Kind, Page, Severity
from foundation.kernel.times import utc_now
from payments.findings.pages import ON_THEIR_WAY, ON_THEIR_WAY_THERE
from payments.findings.pages import RELAYERS as PAGE
from payments.models import Relayer
from payments.settling.agent_gas import find_gas_use

RELAYERS = Kind(
    "relayers",
    "Relayers pay the chain's fees. One that is short sends nothing; when all are, approved payments wait and new ones "
    "are answered 503. No agent's money is touched by that.",
    "Send the chain's own coin to the addresses of the relayers that are short: python manage.py relayers and the list "
    "of relayers have them.",
    "operate/chains", (PAGE, ON_THEIR_WAY_THERE),
)  # fmt: skip
GAS = Kind(
    "gas",
    "This agent's payments cost so many fees in 24 hours that no more of them are approved on this chain.",
    "See whether the agent pays too often in too small amounts, or was taken over; then raise the budget or wait.",
    "operate/chains", (ON_THEIR_WAY,),
)  # fmt: skip


def find_short_relayers() -> Iterator[Finding]:
    """Find the chains whose relayers are short of gas money, and those where none is in rotation: nothing is paid."""
    enabled, short = Q(is_enabled=True), Q(most_cost__isnull=False, is_funded=False)
    numbers: Any = Relayer.objects.filter(enabled, chain__in=settings.CHAINS).order_by().values_list("chain")
    counts = {
        chain: rest
        for chain, *rest in numbers.annotate(
            enabled=Count("pk"), short=Count("pk", filter=short), paying=Count("pk", filter=Q(is_funded=True))
        )
    }
    for chain in settings.CHAINS:
        enabled_there, short_there, paying = counts.get(chain, (0, 0, 0))
        if short_there or not paying:
            yield _of_relayers(chain, enabled_there, short_there, paying)


def _of_relayers(chain: str, enabled: int, short: int, paying: int) -> Finding:
    relayers = numbered(short, f"of {enabled} relayers is", f"of {enabled} relayers are")
    what = f"{relayers} short of gas money" if short else "no relayer is in rotation"
    says = f"{alias_of(chain)}: {what}: {'the others pay' if paying else 'nothing is paid there'}."
    page = Page("Look at relayers", "payments_relayer")
    if paying:
        return Finding(RELAYERS, Severity.WARNING, says, page, chain, short)
    return Finding(RELAYERS, Severity.ERROR, says, page, chain, max(short, 1), unready="no relayer")


def find_used_up_gas_budgets() -> Iterator[Finding]:
    """Find the agents whose gas budget on a chain is used up: none of their payments there is approved."""
    if settings.GAS_BUDGET_PER_AGENT is None:
        return
    for use in find_gas_use(utc_now(), includes_history=False):
        if use.is_budget_used_up:
            says = f"Gas of {use.agent_id}: its budget of 24 hours is used up on {use.chain_name}."
            page = Page("Look at the agent", "policy_agent", key=use.agent_id)
            yield Finding(GAS, Severity.WARNING, says, page, f"{use.agent_id} {use.chain}")


FINDERS = (
    Finder(find_short_relayers, (RELAYERS,), is_quick=True),
    Finder(find_used_up_gas_budgets, (GAS,)),
)

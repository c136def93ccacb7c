"""Relayers that are short of gas money, and agents that have used up theirs."""

from collections.abc import Iterator

from django.conf import settings

from chains.catalogue import alias_of
from foundation.console.figures import numbered
from foundation.findings import Finder, Finding, Kind, Page, Severity
from foundation.groups import read_reachable
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
ROTATION = Kind(
    "rotation",
    "Nobody submits payments on this chain: each relayer is switched off, or belongs to an earlier seed. What is "
    "approved waits; new payments there are answered 503.",
    "See why each relayer is out of rotation, and enable those that shall pay: python manage.py relayers. "
    "Send nothing to the address of a relayer of an earlier seed: its key may be gone.",
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
    enabled = Relayer.objects.filter(is_enabled=True, chain__in=settings.CHAINS).order_by()
    told = read_reachable(enabled.values_list("chain", "address", "most_cost", "is_funded").all)
    # The watcher has looked at those whose key we have. Each account counts once, also if all groups have it.
    relayers = {(chain, address): (most_cost is not None, is_funded) for chain, address, most_cost, is_funded in told}
    for chain in settings.CHAINS:
        of_chain = [states for (its_chain, _), states in relayers.items() if its_chain == chain]
        seen_there = sum(is_seen for is_seen, _ in of_chain)
        short_there = sum(is_seen and not is_funded for is_seen, is_funded in of_chain)
        paying = sum(is_funded for _, is_funded in of_chain)
        page = Page("Look at relayers", "payments_relayer")
        number = numbered(short_there, f"of {seen_there} relayers is", f"of {seen_there} relayers are")
        what = f"{alias_of(chain)}: {number} short of gas money"
        if short_there and paying:
            yield Finding(RELAYERS, Severity.WARNING, f"{what}: the others pay.", page, chain, short_there)
        elif short_there:
            says = f"{what}: nothing is paid there."
            yield Finding(RELAYERS, Severity.ERROR, says, page, chain, short_there, unready="no relayer")
        elif not paying:
            says = f"{alias_of(chain)}: no relayer is in rotation: nothing is paid there."
            yield Finding(ROTATION, Severity.ERROR, says, page, chain, unready="no relayer")


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
    Finder(find_short_relayers, (RELAYERS, ROTATION), is_quick=True),
    Finder(find_used_up_gas_budgets, (GAS,)),
)

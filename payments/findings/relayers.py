"""Relayers that are short of gas money, and agents that have used up theirs."""

from collections.abc import Iterator
from typing import Any

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
    columns = enabled.values_list("chain", "address", "most_cost", "is_funded")
    of_groups: list[Any] = read_reachable(lambda: [list(columns.all())])
    for chain in settings.CHAINS:
        # The watcher has looked at those whose key we have. Each account counts once, also if all groups have it.
        seen, paying, idle = set(), set(), 0
        for rows in of_groups:
            here = [(address, cost, is_funded) for its_chain, address, cost, is_funded in rows if its_chain == chain]
            seen |= {address for address, cost, _ in here if cost is not None}
            funded = {address for address, _, is_funded in here if is_funded}
            paying |= funded
            idle += not funded
        yield from _of_chain(chain, len(seen), len(seen - paying), idle=idle, groups=len(of_groups))


def _of_chain(chain: str, seen: int, short: int, *, idle: int, groups: int) -> Iterator[Finding]:
    """Say what is short on a chain. `idle` of the `groups` of agents have no relayer that pays; one server is one."""
    page = Page("Look at relayers", "payments_relayer")
    what = f"{numbered(short, f'of {seen} relayers is', f'of {seen} relayers are')} short of gas money"
    if short and not idle:
        says = f"{alias_of(chain)}: {what}: the others pay."
        yield Finding(RELAYERS, Severity.WARNING, says, page, chain, short)
    elif idle:
        whom = "there" if idle == groups else f"for {idle} of {groups} groups of agents"
        kind, why = (RELAYERS, what) if short else (ROTATION, "no relayer is in rotation")
        unready = "no relayer" if idle == groups else ""
        says = f"{alias_of(chain)}: {why}: nothing is paid {whom}."
        yield Finding(kind, Severity.ERROR, says, page, chain, short or 1, unready=unready)


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

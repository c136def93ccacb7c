"""The warnings on the console's front page."""

from django import template
from django.conf import settings

from allowance.kernel.times import utc_now
from chains.catalogue import find_chain
from payments.funding.pools import Pool, read_pools
from payments.models import ChainState
from payments.queries import find_troubled_chains
from payments.reconciling.outflow_booking import find_open_outflows
from payments.settling.agent_gas import GasUse, find_gas_use

register = template.Library()


@register.simple_tag
def troubled_chains() -> list[tuple[str, ChainState]]:
    """Find the chains that a person has to look at, with their aliases."""
    states = find_troubled_chains()
    return [(known.alias if (known := find_chain(state.chain)) else state.chain, state) for state in states]


@register.simple_tag
def overdrawn_pools() -> list[Pool]:
    """Find the assets of which more is promised than all escrows hold."""
    return [pool for pool in read_pools() if pool.is_overdrawn]


@register.simple_tag
def used_up_gas_budgets() -> list[GasUse]:
    """Find the agents whose gas budget on a chain is used up: none of their payments there is approved."""
    if settings.GAS_BUDGET_PER_AGENT is None:
        return []
    return [use for use in find_gas_use(utc_now(), includes_history=False) if use.is_budget_used_up]


@register.simple_tag
def open_outflows() -> int:
    """Count the outflows that nobody has booked."""
    return find_open_outflows().count()

"""What the console's front page warns of."""

from django import template

from payments.models import ChainState
from payments.queries import find_troubled_chains
from services.chains import find_chain

register = template.Library()


@register.simple_tag
def troubled_chains() -> list[tuple[str, ChainState]]:
    """Find the chains that a person has to look at, and how people call them."""
    states = find_troubled_chains()
    return [(known.alias if (known := find_chain(state.chain)) else state.chain, state) for state in states]

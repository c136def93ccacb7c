"""Say what of an agent's tree a preview judges, and what it does not."""

from collections.abc import Iterator

from policy.models import Agent
from policy.parents import find_below


def say_of_tree(agent: Agent, parent: str | None, *, below: int) -> Iterator[str]:
    """Yield sentences for an agent that is tried under this parent; `below`: how many judged payments are of others."""
    above = agent.ancestors or ()
    if below:
        are = "1 of them is a payment" if below == 1 else f"{below:,} of them are payments"
        yield f"{are} of agents below {agent.pk}, made while they were below it."
    if below or (agent.ancestors is not None and find_below(agent.pk).exists()):
        yield "Requests of agents below that were refused are not in it."
    if parent is not None and parent != (above[-1] if above else None):
        yield f"The limits of the new parent {parent}, and of those above it, are not replayed."
    elif above:
        yield "The limits of the agents above are as they were: what they refused stays refused."

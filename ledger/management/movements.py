"""What the commands that move a balance have in common: their options, and how these are read."""

from django.core.management.base import CommandError, CommandParser

from policy.models import Agent
from services.chains import find_chain


def add_reason(parser: CommandParser, *, required: bool) -> None:
    """Add the option that says why."""
    parser.add_argument("--reason", default="", required=required, help="Why. Kept with the movement.")


def add_chain(parser: CommandParser, *, help_text: str, required: bool = False) -> None:
    """Add the option that names a chain."""
    parser.add_argument("--chain", metavar="CHAIN", required=required, help=f"{help_text} An alias or a CAIP-2 id.")


def read_chain(name: str | None) -> str | None:
    """Read a chain's name into its CAIP-2 id.

    Raises:
        CommandError: it is not known.
    """
    if name is None:
        return None
    chain = find_chain(name)
    if chain is None:
        raise CommandError(f"There is no chain {name}.")
    return chain.caip2


def find_agent(agent_id: str) -> Agent:
    """Find an agent.

    Raises:
        CommandError: there is no such agent.
    """
    agent = Agent.objects.filter(pk=agent_id).first()
    if agent is None:
        raise CommandError(f"There is no agent {agent_id}.")
    return agent

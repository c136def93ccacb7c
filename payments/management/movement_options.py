"""Options that the commands which move a balance share, and the comparison of the escrows that comes before."""

from django.core.management.base import CommandError, CommandParser

from chains.port import ChainUnavailable
from payments.funding.credits import find_largest_surplus
from payments.funding.expected_holdings import chains_with
from payments.reconciling.reconciliation import reconcile
from policy.models import Agent
from services.served_chains import read_known_chain, served_chains


def add_reason(parser: CommandParser, *, required: bool) -> None:
    """Add the option that says why."""
    parser.add_argument("--reason", default="", required=required, help="Why. Kept with the movement.")


def add_chain(parser: CommandParser, *, help_text: str) -> None:
    """Add the option that names a chain."""
    parser.add_argument("--chain", metavar="CHAIN", help=f"{help_text} An alias or a CAIP-2 id.")


def find_agent(agent_id: str) -> Agent:
    """Find an agent.

    Raises:
        CommandError: there is no such agent.
    """
    agent = Agent.objects.filter(pk=agent_id).first()
    if agent is None:
        raise CommandError(f"There is no agent {agent_id}.")
    return agent


def find_chain_to_credit(name: str | None, asset: str) -> str:
    """Compare the escrows with the ledger now, and name the chain (CAIP-2) with the largest surplus.

    With a `name`, only that chain is compared, and named. A chain that cannot be compared now counts as compared last.

    Raises:
        OperationRefused: there is no such chain, or as `find_largest_surplus` does.
    """
    chains = chains_with(asset) if name is None else [read_known_chain(name)]
    for chain in chains:
        if chain in served_chains():
            try:
                reconcile(chain, served_chains()[chain])
            except ChainUnavailable:
                continue
    return find_largest_surplus(asset) if name is None else chains[0]

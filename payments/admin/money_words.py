"""How the console tells what a movement of money does."""

from decimal import Decimal

from foundation.console.figures import show_amount
from foundation.kernel.money import EXACT
from policy.models import Agent


def signed(amount: Decimal) -> str:
    """Write an amount with its sign."""
    return f"+{show_amount(amount)}" if amount > 0 else show_amount(amount)


def balance_facts(agent: Agent, change: Decimal) -> list[tuple[str, str]]:
    """Tell the balance before and after a change."""
    after = EXACT.add(agent.balance, change)
    return [
        ("Balance now", f"{show_amount(agent.balance)} {agent.asset}"),
        ("Balance then", f"{show_amount(after)} {agent.asset}"),
    ]


def holding(amount: Decimal, asset: str | None, token: str) -> str:
    """Write what an escrow got or lost, whether its token is served or not."""
    if asset is None:
        return f"{amount:f} units of {token or 'an unknown token'}"
    return f"{show_amount(amount)} {asset}"

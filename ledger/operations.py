"""Writes of the ledger that are not payments: movements of an agent's balance."""

from datetime import datetime
from decimal import Decimal

from django.db import transaction

from allowance.kernel.assets import Asset
from allowance.kernel.errors import OperationRefused
from allowance.kernel.money import EXACT, AmountError, to_base_units
from allowance.kernel.times import utc_now
from ledger.models import BalanceMovement, MovementKind
from policy.models import Agent
from policy.operations import lock_agent

_MAX_REASON_LENGTH = 500


def fund_agent(agent_id: str, *, amount: Decimal, by: str, reason: str = "") -> Agent:
    """Credit an agent's allowance.

    Raises:
        OperationRefused: no such agent, or not a positive amount of its asset.
    """
    if len(reason) > _MAX_REASON_LENGTH:
        raise OperationRefused(f"A reason has at most {_MAX_REASON_LENGTH} characters.")
    with transaction.atomic():
        agent = lock_agent(agent_id)
        try:
            units = to_base_units(amount, Asset(agent.asset))
        except AmountError as error:
            raise OperationRefused(str(error)) from error
        if units <= 0:
            raise OperationRefused("Fund with an amount greater than zero.")
        move_balance(agent, kind=MovementKind.FUNDING, amount=amount, by=by, reason=reason)
    return agent


def move_balance(
    agent: Agent,
    *,
    kind: MovementKind,
    amount: Decimal,
    by: str,
    reason: str = "",
    payment_id: str | None = None,
    spent_at: datetime | None = None,
) -> BalanceMovement:
    """Change a locked agent's balance by a signed amount and keep the movement. Call inside a transaction."""
    agent.balance = EXACT.add(agent.balance, amount)
    agent.save(update_fields=["balance"])
    return BalanceMovement.objects.create(
        agent=agent,
        kind=kind,
        amount=amount,
        balance_after=agent.balance,
        payment_id=payment_id,
        spent_at=spent_at,
        author=by,
        reason=reason,
        created_at=utc_now(),
    )

"""Book movements of an agent's balance that are not payments."""

from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.db.models import Sum

from foundation.groups import for_agent
from foundation.kernel.assets import Asset
from foundation.kernel.blanks import is_blank
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import EXACT, AmountError, format_amount, to_base_units
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement, Hold, MovementKind
from ledger.movements import find_newest_by_hand
from policy.models import Agent
from policy.parents import lock_agent

MAX_REASON_LENGTH = 500


@for_agent
def fund_agent(agent_id: str, *, amount: Decimal, by: str, reason: str = "", chain: str | None = None) -> Agent:
    """Credit an agent's allowance with money on a `chain` (CAIP-2). The caller checks that the money is there.

    Raises:
        OperationRefused: no such agent, or not a positive amount of its asset.
    """
    _check_length(reason)
    with transaction.atomic():
        agent = lock_agent(agent_id)
        _check_positive(agent, amount, "Fund with an amount greater than zero.")
        move_balance(agent, kind=MovementKind.FUNDING, amount=amount, by=by, reason=reason, chain=chain)
    return agent


@for_agent
def withdraw_funds(
    agent_id: str,
    *,
    amount: Decimal,
    by: str,
    reason: str,
    chain: str,
    after: int | None = None,
    has_left: bool = False,
) -> BalanceMovement:
    """Deduct a withdrawal on a chain (CAIP-2) from an agent's balance. It moves no tokens.

    What is held for a person's approval is not withdrawn, unless the tokens have left already (`has_left`).

    `after` is the agent's newest movement by hand that the author saw (`find_newest_by_hand`). If it is given and there
    is a newer one, nothing is booked: a form that is sent twice is booked once.

    Raises:
        OperationRefused: no such agent, no author or reason, not a positive amount of its asset, more than the
            balance or than what is not held of it, or a movement since.
    """
    with transaction.atomic():
        agent = _lock_for_hand(agent_id, by, reason, after)
        _check_positive(agent, amount, "Withdraw an amount greater than zero.")
        _check_balance(agent, -amount)
        if not has_left:
            _check_unheld(agent, amount)
        return move_balance(agent, kind=MovementKind.WITHDRAWAL, amount=-amount, by=by, reason=reason, chain=chain)


@for_agent
def adjust_balance(
    agent_id: str, *, amount: Decimal, by: str, reason: str, chain: str, after: int | None = None
) -> Agent:
    """Correct an agent's balance by a signed amount of what the escrow on a chain (CAIP-2) holds.

    The caller checks that the escrow holds as much. `after` as in `withdraw_funds`. What is held for a person's
    approval does not keep it: what the balance does not cover then is refused when somebody approves it.

    Raises:
        OperationRefused: no such agent, no author or reason, zero or no amount of its asset, below zero, or a movement
            since.
    """
    with transaction.atomic():
        agent = _lock_for_hand(agent_id, by, reason, after)
        if _base_units(agent, amount) == 0:
            raise OperationRefused("Adjust by an amount above or below zero.")
        _check_balance(agent, amount)
        move_balance(agent, kind=MovementKind.ADJUSTMENT, amount=amount, by=by, reason=reason, chain=chain)
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
    chain: str | None = None,
    now: datetime | None = None,
) -> BalanceMovement:
    """Change a locked agent's balance by a signed amount and record the movement; `now` replaces the clock.

    Call inside a transaction.
    """
    agent.balance = EXACT.add(agent.balance, amount)
    agent.save(update_fields=["balance"])
    return BalanceMovement.objects.create(
        agent=agent, kind=kind, amount=amount, balance_after=agent.balance, payment_id=payment_id, spent_at=spent_at,
        chain=chain, author=by, reason=reason, created_at=now or utc_now(),
    )  # fmt: skip


def _lock_for_hand(agent_id: str, by: str, reason: str, after: int | None) -> Agent:
    """Lock an agent for a movement by hand; refuse one without an author or a reason, or if there is a newer one."""
    _check_length(reason)
    if is_blank(by) or is_blank(reason):
        raise OperationRefused("Give the author and a reason.")
    agent = lock_agent(agent_id)
    if after is not None and find_newest_by_hand(agent_id) != after:
        raise OperationRefused(f"Another movement of {agent_id} was booked meanwhile. Check the balance again.")
    return agent


def _check_length(reason: str) -> None:
    if len(reason) > MAX_REASON_LENGTH:
        raise OperationRefused(f"A reason has at most {MAX_REASON_LENGTH} characters.")


def _check_positive(agent: Agent, amount: Decimal, otherwise: str) -> None:
    if _base_units(agent, amount) <= 0:
        raise OperationRefused(otherwise)


def _check_balance(agent: Agent, change: Decimal) -> None:
    if EXACT.add(agent.balance, change) < 0:
        raise OperationRefused(f"The balance of {agent.id} is {format_amount(agent.balance)} {agent.asset}.")


def _check_unheld(agent: Agent, amount: Decimal) -> None:
    """Keep what is held for a person's approval; under the agent's lock, nothing more is held meanwhile."""
    held = Hold.objects.filter(agent=agent, ended_at=None).aggregate(total=Sum("amount"))["total"] or Decimal(0)
    if EXACT.add(amount, held) > agent.balance:
        balance = f"{format_amount(agent.balance)} {agent.asset}"
        raise OperationRefused(
            f"The balance of {agent.id} is {balance}, of which {format_amount(held)} are held for payments that wait "
            "for approval: somebody has to decline them first."
        )


def _base_units(agent: Agent, amount: Decimal) -> int:
    try:
        return to_base_units(amount, Asset(agent.asset))
    except AmountError as error:
        raise OperationRefused(str(error)) from error

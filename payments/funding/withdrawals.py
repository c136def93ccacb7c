"""Withdrawals: money is booked out of an agent's balance first; then the escrow's owner moves the tokens.

Once it is booked, nobody can spend it. The search of the escrow's history marks a withdrawal as landed
(`reconciling.outflows`). Locks are taken in the order agent, withdrawal.
"""

from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet, Sum

from chains.addresses import RecipientError, parse_recipient
from chains.catalogue import ServedChain
from foundation.groups import WHOLE, Group, for_agent, group_of, within
from foundation.kernel.assets import Asset
from foundation.kernel.blanks import is_blank
from foundation.kernel.errors import OperationRefused
from foundation.kernel.ids import new_id
from foundation.kernel.money import EXACT, format_amount
from foundation.kernel.times import utc_now
from ledger import operations
from payments.funding.credits import check_chain
from payments.models import Withdrawal
from payments.queries import find_newest_reconciliations
from policy.parents import lock_agent
from staff.audit import record


@for_agent
def book_withdrawal(
    agent_id: str, *, amount: Decimal, chain: str, recipient: str, by: str, reason: str, after: int | None = None
) -> Withdrawal:
    """Book that an agent's money leaves the escrow on a chain (CAIP-2) for an address there.

    `after` as in `ledger.operations.withdraw_funds`.

    Raises:
        OperationRefused: as `ledger.operations.withdraw_funds` does, the chain does not have the asset, the recipient
            is no address that can be paid there, or the escrow held less when it was compared last.
    """
    with transaction.atomic():
        agent = lock_agent(agent_id)
        check_chain(chain, agent.asset)
        served: ServedChain = settings.CHAINS[chain]
        address = _read_recipient(served, recipient)
        movement = operations.withdraw_funds(agent_id, amount=amount, by=by, reason=reason, chain=chain, after=after)
        _check_holdings(chain, agent.asset, amount)
        withdrawal = Withdrawal.objects.create(
            reference=new_id("wdr", utc_now()),
            chain=chain,
            escrow=served.escrow,
            asset=agent.asset,
            amount=amount,
            recipient=address,
            agent=agent,
            movement=movement,
            author=by,
            reason=reason,
            created_at=utc_now(),
        )
        _record("withdrawal.booked", withdrawal, before={"balance": agent.balance}, by=by, reason=reason)
    return withdrawal


def cancel_withdrawal(reference: str, *, by: str, reason: str, checked: Withdrawal | None = None) -> Withdrawal:
    """Return a withdrawal whose tokens have not left to the balance. Nothing signed for it may still be sent.

    `checked`: the withdrawal as it was when that was checked.

    Raises:
        OperationRefused: no such withdrawal, it has landed, was cancelled before, a transaction was made for it since
            it was checked, or there is no author or reason.
    """
    if is_blank(by) or is_blank(reason):
        raise OperationRefused("Say who cancels the withdrawal, and why.")
    known = checked or find_withdrawal(reference)
    with within(group_of_withdrawal(known)), transaction.atomic():
        if known.agent_id is not None:
            lock_agent(known.agent_id)
        withdrawal = Withdrawal.objects.select_for_update(no_key=True).get(pk=known.pk)
        _check_cancellable(withdrawal, known)
        if withdrawal.agent_id is not None:
            # The surplus covers it: the tokens have not left the escrow.
            operations.adjust_balance(
                withdrawal.agent_id,
                amount=withdrawal.amount,
                by=by,
                reason=f"{reference} is cancelled: {reason}",
                chain=withdrawal.chain,
            )
        withdrawal.cancelled_at = utc_now()
        withdrawal.save(update_fields=["cancelled_at"])
        _record("withdrawal.cancelled", withdrawal, before={"state": "open"}, by=by, reason=reason)
    return withdrawal


def group_of_withdrawal(withdrawal: Withdrawal) -> Group:
    """Name the group whose rows a withdrawal is about; `WHOLE`: it has no agent."""
    return WHOLE if withdrawal.agent_id is None else group_of(withdrawal.agent_id)


def _check_cancellable(withdrawal: Withdrawal, known: Withdrawal) -> None:
    if withdrawal.landed_block is not None:
        raise OperationRefused(f"{withdrawal} has landed in block {withdrawal.landed_block}.")
    if withdrawal.cancelled_at is not None:
        raise OperationRefused(f"{withdrawal} was cancelled before.")
    if withdrawal.valid_until_height != known.valid_until_height:
        raise OperationRefused(f"A transaction was just made for {withdrawal}: try again once it has expired.")


def _record(action: str, withdrawal: Withdrawal, *, before: dict[str, Any], by: str, reason: str) -> None:
    after = {
        "state": withdrawal.state,
        "agentId": withdrawal.agent_id,
        "amount": withdrawal.amount,
        "asset": withdrawal.asset,
        "chain": withdrawal.chain,
        "recipient": withdrawal.recipient,
    }
    record(
        action,
        subject_type="withdrawal",
        subject=withdrawal.reference,
        by=by,
        reason=reason,
        before=before,
        after=after,
    )


def find_withdrawal(reference: str) -> Withdrawal:
    """Find a withdrawal by its reference.

    Raises:
        OperationRefused: there is none.
    """
    withdrawal = Withdrawal.objects.filter(reference=reference).first()
    if withdrawal is None:
        raise OperationRefused(f"There is no withdrawal {reference}.")
    return withdrawal


def find_open_withdrawals() -> QuerySet[Withdrawal]:
    """Find the withdrawals whose tokens have not left the escrow yet."""
    return Withdrawal.objects.filter(landed_block=None, cancelled_at=None)


def _read_recipient(served: ServedChain, text: str) -> str:
    try:
        address = parse_recipient(f"{served.chain.caip2}:{text}").address
    except RecipientError as error:
        raise OperationRefused(f"Recipient: {error}") from error
    if served.is_own_contract(address):
        raise OperationRefused("Recipient: this is our own escrow or a token contract, where the tokens would be lost.")
    return address


def _check_holdings(chain: str, asset: str, amount: Decimal) -> None:
    """Refuse what the escrow could not pay out, by its last comparison: the money may be on another chain."""
    row = find_newest_reconciliations().filter(chain=chain, asset=asset).first()
    if row is None or not row.is_of(settings.CHAINS[chain].escrow):
        return
    leaving = find_open_withdrawals().filter(chain=chain, asset=asset).aggregate(total=Sum("amount"))["total"]
    left = EXACT.subtract(row.holds, leaving or Decimal(0))
    if amount > left:
        raise OperationRefused(
            f"The escrow holds {format_amount(row.holds)} {Asset(asset)} on this chain, of which "
            f"{format_amount(leaving or Decimal(0))} are about to leave: withdraw the rest on another chain."
        )

"""Deposits: what came into an escrow is credited to the agent it names, once, or set aside for people to credit.

`payments.reconciling.escrow_history` finds them. Source: docs/architecture.md.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db import transaction

from chains.port import DepositEvent
from foundation.groups import within_group_of
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from ledger.models import MovementKind
from ledger.operations import move_balance
from payments.funding.expected_holdings import find_deposits
from payments.models import Deposit, DepositState, Withdrawal
from policy.models import Agent
from policy.parents import lock_agent
from staff.audit import record

log = logging.getLogger(__name__)

# The author of a movement that credits a deposit without a person's doing.
DEPOSIT_AUTHOR = "deposit"
# Stands for bytes that are not UTF-8: a text that contains it is not exactly what was sent.
UNREADABLE = "\N{REPLACEMENT CHARACTER}"


def record_deposits(
    chain: str,
    found: Sequence[DepositEvent],
    agents: Mapping[str, Agent],
    *,
    escrow: str = "",
    now: datetime | None = None,
) -> int:
    """Record deposits, and credit them to `agents`, which the caller has locked; returns how many are new.

    `now` replaces the clock.
    """
    txs = {one.tx for one in found}
    # A deposit is known before only if somebody set the cursor back.
    known = set(Deposit.objects.filter(chain=chain, tx__in=txs).values_list("tx", "log_index"))
    # What arrives from our own former escrow is no deposit.
    transferred = _land_transfers(chain, escrow, found)
    new = [one for one in found if (one.tx, one.log_index) not in known and one.tx not in transferred]
    for one in new:
        _record(chain, one, agents.get(one.named_agent), now or utc_now())
    return len(new)


def _land_transfers(chain: str, escrow: str, found: Sequence[DepositEvent]) -> set[str]:
    """Find the transactions that brought tokens from another escrow of ours (`rotate_keys`), and mark them as landed.

    Once the next escrow is in use, only its own history is searched: this may be the first to see that they arrived.
    """
    transfers = Withdrawal.objects.filter(chain=chain, agent=None).exclude(escrow=escrow)
    landed = set(transfers.filter(landed_tx__in={one.tx for one in found}).values_list("landed_tx", flat=True))
    waiting = transfers.filter(
        landed_block=None, cancelled_at=None, reference__in={one.named_agent for one in found}
    ).select_for_update(no_key=True)
    by_reference = {transfer.reference: transfer for transfer in waiting.order_by("pk")}
    for one in found:
        transfer = by_reference.get(one.named_agent)
        is_same = transfer is not None and (transfer.asset, transfer.amount) == (one.asset, one.amount)
        if is_same and one.tx not in landed:
            mark_landed(by_reference.pop(one.named_agent), one.tx, one.block_number)
            landed.add(one.tx)
    return landed


def mark_landed(withdrawal: Withdrawal, tx: str, block_number: int) -> None:
    """Record that the tokens of a locked withdrawal have left the escrow."""
    withdrawal.landed_tx, withdrawal.landed_block = tx, block_number
    withdrawal.save(update_fields=["landed_tx", "landed_block"])
    log.warning("%s %s of the withdrawal %s have left the escrow", withdrawal.amount, withdrawal.asset, withdrawal)


def credit_deposit(deposit_id: int, *, agent_id: str, by: str, reason: str = "") -> Deposit:
    """Credit a deposit that was set aside, once.

    Raises:
        OperationRefused: no such deposit or agent, it is credited already, it names a transfer between our own escrows,
            or the agent's allowance is in another asset.
    """
    with within_group_of(agent_id), transaction.atomic():
        deposit = Deposit.objects.select_for_update(no_key=True).filter(pk=deposit_id).first()
        if deposit is None:
            raise OperationRefused(f"There is no deposit {deposit_id}.")
        if deposit.state == DepositState.CREDITED:
            raise OperationRefused(f"The deposit {deposit} was credited to {deposit.agent_id} already.")
        if not find_deposits().filter(pk=deposit.pk).exists():
            # It counts as surplus, which may be credited already.
            raise OperationRefused(
                f"{deposit} names a transfer between our own escrows: adjust the balance out of the surplus instead."
            )
        agent = lock_agent(agent_id)
        if agent.asset != deposit.asset:
            raise OperationRefused(_other_asset(agent, deposit.asset))
        _credit(deposit, agent, by, utc_now())
        deposit.save()
        _note_credit(deposit, agent, by, reason)
    return deposit


def _note_credit(deposit: Deposit, agent: Agent, by: str, reason: str) -> None:
    after = {
        "state": str(deposit.state),
        "agentId": agent.id,
        "amount": deposit.amount,
        "asset": deposit.asset,
        "tx": deposit.tx,
        "balance": agent.balance,
    }
    record(
        "deposit.credited",
        subject_type="deposit",
        subject=str(deposit.pk),
        by=by,
        reason=reason,
        before={"state": DepositState.ASIDE.value},
        after=after,
    )


def _record(chain: str, found: DepositEvent, agent: Agent | None, now: datetime) -> None:
    deposit = Deposit(
        chain=chain,
        tx=found.tx,
        log_index=found.log_index,
        block_number=found.block_number,
        depositor=found.depositor,
        token=found.token,
        asset=found.asset,
        amount=found.amount,
        named_agent=found.named_agent,
        found_at=now,
    )
    if found.asset is None:
        deposit.note = f"The token {found.token} is not served."
    elif agent is None:
        deposit.note = "There is no agent of this name." if found.named_agent else "It names no agent."
    elif agent.asset != found.asset:
        deposit.note = _other_asset(agent, found.asset)
    else:
        _credit(deposit, agent, DEPOSIT_AUTHOR, now)
    if deposit.note:
        deposit.state = DepositState.ASIDE
        log.warning("The deposit %s on %s is set aside: %s", deposit, chain, deposit.note)
    deposit.save()


def _credit(deposit: Deposit, agent: Agent, by: str, now: datetime) -> None:
    """Credit a deposit to a locked agent. The caller saves the deposit."""
    deposit.movement = move_balance(
        agent, kind=MovementKind.FUNDING, amount=deposit.amount, by=by, reason=deposit.tx, chain=deposit.chain, now=now
    )
    deposit.agent, deposit.state, deposit.credited_at = agent, DepositState.CREDITED, now


def _other_asset(agent: Agent, asset: str | None) -> str:
    deposited = asset or "a token that is not served"
    return f"The allowance of {agent.id} is in {agent.asset}, the deposit is in {deposited}."

"""Book an outflow that the ledger did not know: as an agent's money, which leaves its balance, or as a loss.

Locks are taken in the order agent, outflow.
"""

import logging

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from chains.catalogue import Vm
from foundation.groups import Group, any_group, find_in_groups, group_here, group_if_known, within
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import format_amount
from foundation.kernel.times import utc_now
from ledger import operations
from ledger.models import BalanceMovement
from payments.lifecycle import PaymentStatus
from payments.models import Outflow, Payment
from payments.settling import transitions
from policy.parents import lock_agent, lock_agents
from staff.audit import record

log = logging.getLogger(__name__)

MAX_NOTE_LENGTH = 500


def book_outflow(
    outflow_id: int, *, by: str, reason: str, agent_id: str | None, is_one_of_many: bool = False
) -> Outflow:
    """Book an outflow, once: as an agent's money, or, without an agent, as a loss that no balance bears.

    `is_one_of_many`: whoever books a list says so in one line of the log; the audit has each in any case.

    A payment of ours in flight whose id the escrow has used up for this is given back first: nothing can pay it any
    more.

    Raises:
        OperationRefused: no such outflow, it is booked already, no author or reason; with an agent: no such agent, its
            allowance is in another asset, or its balance does not cover it.
    """
    if not by.strip() or not 1 <= len(reason.strip()) <= MAX_NOTE_LENGTH:
        raise OperationRefused(f"Give the author, and what it was in 1 to {MAX_NOTE_LENGTH} characters.")
    known = Outflow.objects.filter(pk=outflow_id).first()
    if known is None:
        raise OperationRefused(f"There is no outflow {outflow_id}.")
    with within(group_of_outflow(known, agent_id)), transaction.atomic():
        given_back = _find_void_payment(known)
        lock_agents({agent_id or "", given_back.agent_id if given_back else ""})
        outflow = Outflow.objects.select_for_update(no_key=True).get(pk=outflow_id)
        if outflow.booked_at is not None:
            raise OperationRefused(f"The outflow {outflow} was booked already: {outflow.note}")
        if given_back is not None:
            transitions.fail(given_back, reason=f"{outflow.tx} used up its id in the escrow.")
        if agent_id is not None:
            outflow.movement = _withdraw(agent_id, outflow, by=by, reason=reason)
        outflow.booked_at, outflow.booked_by, outflow.note = utc_now(), by, reason
        outflow.save(update_fields=["movement", "booked_at", "booked_by", "note"])
        _record(outflow, agent_id)
        level, told = logging.DEBUG if is_one_of_many else logging.WARNING, (outflow, agent_id or "a loss", reason)
        transaction.on_commit(lambda: log.log(level, "The outflow %s is booked as %s: %s", *told))
    return outflow


def group_of_outflow(outflow: Outflow, agent_id: str | None) -> Group:
    """Name the group that is changed by booking an outflow: that of the payment it is about, of the agent, or any.

    Raises:
        OperationRefused: these are two, or no such agent.
    """
    found = find_in_groups(lambda: (group_here(),) if _find_void_payment(outflow) else None)
    own = None if agent_id is None else group_if_known(agent_id)
    if agent_id is not None and own is None:
        raise OperationRefused(f"There is no agent {agent_id}.")
    if found and own and found[0] != own:
        raise OperationRefused(f"{outflow.tx} used up the id of a payment on another server than {agent_id}.")
    return own or (found[0] if found else any_group())


def _record(outflow: Outflow, agent_id: str | None) -> None:
    after = {
        "state": outflow.state,
        "agentId": agent_id,
        "amount": outflow.amount,
        "asset": outflow.asset,
        "chain": outflow.chain,
        "tx": outflow.tx,
    }
    record(
        "outflow.booked",
        subject_type="outflow",
        subject=str(outflow.pk),
        by=outflow.booked_by,
        reason=outflow.note,
        before={"state": "open"},
        after=after,
    )


def find_open_outflows(chain: str | None = None) -> QuerySet[Outflow]:
    """Find the outflows that nobody has booked yet, on one chain or on all, oldest first."""
    found = Outflow.objects.filter(booked_at=None).order_by("id")
    return found if chain is None else found.filter(chain=chain)


def describe(outflow: Outflow) -> str:
    """Describe an outflow in a sentence."""
    what = "It moved nothing."
    if outflow.amount:
        unit = outflow.asset or f"units of {outflow.token or 'an unknown token'}"
        amount = format_amount(outflow.amount) if outflow.asset else f"{outflow.amount:f}"
        what = f"{amount} {unit} left for {outflow.recipient or 'an account that the chain does not tell'}."
    return f"{what} {outflow.why}"


def _find_void_payment(outflow: Outflow) -> Payment | None:
    """Find the payment that can never be made because of this outflow; only EVM escrows accept each id once."""
    served = settings.CHAINS.get(outflow.chain)
    if not outflow.escrow_id or served is None or served.chain.vm is not Vm.EVM:
        return None
    in_flight = Payment.objects.filter(status=PaymentStatus.APPROVED)
    return in_flight.filter(chain=outflow.chain, escrow_id=outflow.escrow_id).first()


def _withdraw(agent_id: str, outflow: Outflow, *, by: str, reason: str) -> BalanceMovement:
    agent = lock_agent(agent_id)
    if outflow.asset != agent.asset or not outflow.amount:
        left = outflow.asset if outflow.asset and outflow.amount else "nothing that is served"
        raise OperationRefused(f"The allowance of {agent_id} is in {agent.asset}; the outflow is of {left}.")
    return operations.withdraw_funds(
        agent_id, amount=outflow.amount, by=by, reason=reason, chain=outflow.chain, has_left=True
    )

"""Check the whole evidence in the database: entries, hash chains, payments, balances, deposits.

Source: docs/architecture.md.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from foundation.database import in_batches
from foundation.kernel.assets import Asset
from foundation.kernel.money import parse_amount
from ledger.clocks import find_wrong_repairs
from ledger.evidence import find_seal_problems, is_judged_by
from ledger.judgements import read_explanation
from ledger.models import BalanceMovement, ClockRepair, LogEntry, MovementKind, Result
from ledger.queries import read_chain
from ledger.receipts import FIRST_PREVIOUS_HASH
from ledger.tallies import find_wrong_tallies
from payments.deciding.authorized import authorized_as, find_authorized
from payments.deciding.escrow_ids import key_hash
from payments.funding.deposits import DEPOSIT_AUTHOR
from payments.lifecycle import PaymentStatus
from payments.models import Deposit, Installation, Payment
from payments.reconciling.counted_levels import find_level_problems, find_wrong_level
from payments.reconciling.held_payments import find_unasked, find_wrong_holds, key_of
from payments.reconciling.policies_in_force import find_outdated, find_wrong_revision
from policy.models import Agent, PolicyRevision
from policy.places import find_wrong_place
from policy.signer import published_keys


@dataclass(frozen=True, slots=True)
class Problem:
    """A contradiction in the evidence. `entry_id` is None where no single entry is at fault."""

    agent_id: str
    entry_id: str | None
    problem: str


@dataclass(slots=True)
class Progress:
    """How far the verification has come with one agent."""

    entries: int = 0
    last_id: str = ""
    last_hash: str = FIRST_PREVIOUS_HASH
    last_at: datetime | None = None
    spent_total: Decimal = Decimal(0)


def verify_agent(agent_id: str, progress: Progress) -> Iterator[Problem]:
    """Check an agent's log, payments and balance; yields each problem and counts in `progress`.

    Call within the agent's group and `snapshot`, so that what is compared is of one moment while payments go on.
    """
    agent = Agent.objects.get(pk=agent_id)
    keys = published_keys()["keys"]
    payments = {payment.entry_id: payment for payment in Payment.objects.filter(agent=agent)}
    salt = bytes(Installation.objects.get().salt)
    for entry in read_chain(agent):
        payment = payments.pop(entry.id, None)
        problems = [*_entry_problems(entry, progress, keys), *find_payment_problems(entry, payment, salt)]
        yield from (Problem(agent.id, entry.id, problem) for problem in problems)
        progress.entries += 1
        progress.last_id, progress.last_hash, progress.last_at = entry.id, entry.hash, entry.created_at
    problems = [*_head_problems(agent, progress), *_balance_problems(agent), *_deposit_problems(agent)]
    problems += [*find_wrong_holds(agent), *find_wrong_place(agent), *find_wrong_level(agent)]
    problems += [*find_wrong_revision(agent), *find_wrong_repairs(agent), *find_wrong_tallies(agent)]
    problems += [f"Payment {payment.id} has no log entry." for payment in payments.values()]
    yield from (Problem(agent.id, None, problem) for problem in problems)


def _entry_problems(entry: LogEntry, progress: Progress, keys: list[dict[str, str]]) -> Iterator[str]:
    yield from find_seal_problems(entry, keys)
    if entry.previous_hash != progress.last_hash:
        yield "The chain is broken: the entry before this one is missing, moved or changed."
    if entry.result == Result.APPROVED:
        progress.spent_total += _amount(entry)
    if entry.spent_total != progress.spent_total:
        yield f"The running total is {entry.spent_total}; the entries up to here sum up to {progress.spent_total}."


def _amount(entry: LogEntry) -> Decimal:
    """Read an amount as it was written; 0 if somebody made it unreadable, which the hash reveals as well."""
    try:
        return parse_amount(entry.amount, Asset(entry.asset))
    except ValueError:
        return Decimal(0)


def find_payment_problems(entry: LogEntry, payment: Payment | None, salt: bytes) -> Iterator[str]:
    """Yield how a payment differs from the entry that approved it; `salt` is the installation's."""
    if entry.result != Result.APPROVED:
        if payment is not None:
            yield f"The entry is {entry.result} and has the payment {payment.id}."
        return
    if payment is None:
        yield "The entry is approved and has no payment."
        return
    in_entry = (entry.payment_id, entry.agent_id, entry.service, _amount(entry), entry.asset, entry.created_at)
    in_payment = (payment.id, payment.agent_id, payment.service_id, payment.amount, payment.asset, payment.decided_at)
    if in_entry != in_payment:
        yield f"The payment {payment.id} is not what the entry says."
    explanation = read_explanation(entry)
    if explanation.get("recipient") != f"{payment.chain}:{payment.recipient}":
        yield f"The payment {payment.id} goes to another recipient than the entry says."
    policy = PolicyRevision.objects.filter(agent_id=entry.agent_id, number=entry.policy_revision).first()
    if policy is None or not is_judged_by(entry, policy):
        yield f"The policy revision {entry.policy_revision} is not the one that the entry was judged by."
    if policy is not None:
        for find_problems in (find_outdated, find_unasked, find_level_problems):
            yield from find_problems(entry, policy)
    hashed = key_hash(salt, entry.agent_id, key_of(entry))
    if payment.escrow_id not in (payment.id, f"0x{hashed.hex()}"):
        yield f"What {payment.chain} knows the payment {payment.id} by does not stand for its idempotency key."
    yield from _chain_problems(entry, payment, explanation)


def _chain_problems(entry: LogEntry, payment: Payment, explanation: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the id on the chain and the transaction that the entry names.

    Entries until 0.3 do not say the id. In the place of the transaction there may be an authorization (x402).
    """
    if explanation.get("escrowId", payment.escrow_id) != payment.escrow_id:
        yield f"What {payment.chain} knows the payment {payment.id} by is not what the entry says."
    if entry.tx is None or payment.authorizer is not None:
        if entry.tx is not None or find_authorized(explanation) != authorized_as(payment):
            yield f"The payment {payment.id} is not what the entry lets its payee take."
    elif not payment.settlements.filter(tx=entry.tx).exists():
        yield f"The transaction {entry.tx} is not among those of the payment {payment.id}."


def _head_problems(agent: Agent, progress: Progress) -> Iterator[str]:
    if (agent.last_entry_id, agent.last_entry_hash or FIRST_PREVIOUS_HASH) != (progress.last_id, progress.last_hash):
        yield "The newest entry is missing, or the agent's head of the chain was changed."
    repairs = ClockRepair.objects.filter(agent=agent, head_id=progress.last_id).order_by("-number")
    repaired_at = repairs.values_list("repaired_at", flat=True).first()
    if agent.last_entry_at != (repaired_at or progress.last_at):
        yield "The agent's record of when its newest entry was made is not that entry's moment."
    if agent.spent_total != progress.spent_total:
        yield f"The agent's total is {agent.spent_total}; its entries sum up to {progress.spent_total}."


def _balance_problems(agent: Agent) -> Iterator[str]:
    movements = BalanceMovement.objects.filter(agent=agent)
    total = Decimal(0)
    for movement in in_batches(movements, "id"):
        total += movement.amount
        if movement.balance_after != total:
            yield f"After movement {movement.id} the balance was {movement.balance_after}, not the sum {total}."
            total = movement.balance_after
    if agent.balance != total:
        yield f"The balance is {agent.balance}; its movements sum up to {total}."
    by_kind = {
        kind: dict(movements.filter(kind=kind).values_list("payment_id", "amount"))
        for kind in (MovementKind.PAYMENT, MovementKind.RETURN)
    }
    for payment in in_batches(Payment.objects.filter(agent=agent), "id"):
        if by_kind[MovementKind.PAYMENT].get(payment.id) != -payment.amount:
            yield f"Payment {payment.id} has no matching movement of the balance."
        returned = payment.amount if payment.status == PaymentStatus.FAILED else None
        if by_kind[MovementKind.RETURN].get(payment.id) != returned:
            yield f"Payment {payment.id} is {payment.status}, and what was given back does not fit that."


def _deposit_problems(agent: Agent) -> Iterator[str]:
    """Compare what was credited with what came in. The database insists that a credited deposit has a movement."""
    deposits = {deposit.movement_id: deposit for deposit in Deposit.objects.filter(movement__agent=agent)}
    of_payments = (MovementKind.PAYMENT, MovementKind.RETURN)
    movements = BalanceMovement.objects.filter(agent=agent).exclude(kind__in=of_payments)
    for movement in in_batches(movements, "id"):
        deposit = deposits.pop(movement.id, None)
        if deposit is None:
            if movement.author == DEPOSIT_AUTHOR and movement.kind == MovementKind.FUNDING:
                yield f"Movement {movement.id} credits a deposit that never came in."
            continue
        credited = (movement.kind, movement.agent_id, agent.asset, movement.amount, movement.chain, movement.reason)
        came_in = (deposit.agent_id, deposit.asset, deposit.amount, deposit.chain, deposit.tx)
        if credited != (MovementKind.FUNDING, *came_in):
            yield f"Movement {movement.id} is not what came in with the deposit {deposit}."
    for deposit in deposits.values():
        yield f"The deposit {deposit} is credited by a movement that credits nothing."

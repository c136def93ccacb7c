"""What the chain did, beside what our books say. Each check yields a sentence for everything that does not fit."""

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

from allowance.kernel.assets import Asset
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState
from payments.models import Deposit, Relayer, Settlement
from policy.models import Agent
from tests.chains import balance_of, escrow, rpc, token
from tests.crash.depositor import STRANGER
from tests.crash.evidence import Evidence, Paid

_UNITS = Decimal(10**6)


def every_payment_ended_as_the_chain_says(evidence: Evidence) -> Iterator[str]:
    """Settled: exactly one `Paid` event, exact in token, amount and recipient. Failed: none."""
    paid: dict[str, list[Paid]] = {}
    for event in evidence.paid:
        paid.setdefault(event.payment_id, []).append(event)
    final = dict(
        Settlement.objects.filter(state=SettlementState.FINAL, payment__isnull=False).values_list("payment_id", "tx")
    )
    for pk, payment in evidence.payments.items():
        events = paid.pop(pk, [])
        if payment.status == PaymentStatus.SETTLED:
            wanted = (token(Asset(payment.asset)).lower(), payment.recipient.lower(), payment.amount * _UNITS)
            found = [(event.token, event.recipient, event.units) for event in events]
            if found != [wanted] or final.get(pk) != events[0].tx:
                yield f"{pk} is settled by {final.get(pk)}; on chain there is {events}."
        elif payment.status == PaymentStatus.FAILED:
            if events:
                yield f"{pk} failed ({payment.failure_reason}) and was paid: {events}."
        else:
            yield f"{pk} came to no end; on chain there is {events}."
    for pk in paid:
        yield f"{pk} was paid, and nobody approved it."


def deposits_are_credited_once(evidence: Evidence) -> Iterator[str]:
    on_chain = Counter((one.tx, one.log_index, one.agent, Decimal(one.units) / _UNITS) for one in evidence.deposited)
    rows = Counter(
        (one.tx, one.log_index, one.named_agent, one.amount) for one in Deposit.objects.select_related("movement")
    )
    for one in on_chain - rows:
        yield f"A deposit was not found: {one}."
    for one in rows - on_chain:
        yield f"A deposit was never made, or is there twice: {one}."
    totals: Counter[str] = Counter()
    for event in evidence.deposited:
        totals[event.agent] += event.units
    if totals != Counter(evidence.world.depositor.by_agent):
        yield f"The escrow got {dict(totals)}, deposited was {evidence.world.depositor.by_agent}."
    for row in Deposit.objects.select_related("movement"):
        credited = row.movement and (row.movement.agent_id, row.movement.amount)
        if credited != (None if row.named_agent == STRANGER else (row.named_agent, row.amount)):
            yield f"The deposit {row} of {row.named_agent} was credited as {credited}."


def balances_are_deposits_less_settled(evidence: Evidence) -> Iterator[str]:
    expected: Counter[str] = Counter()
    for one in evidence.deposited:
        expected[one.agent] += one.units
    held = evidence.held_before + sum(expected.values()) - sum(event.units for event in evidence.paid)
    if balance_of(Asset.USDC, escrow()) != held:
        yield f"The escrow holds {balance_of(Asset.USDC, escrow())} base units, and should hold {held}."
    for payment in evidence.payments.values():
        if payment.status == PaymentStatus.SETTLED:
            expected[payment.agent_id] -= int(payment.amount * _UNITS)
    for agent in Agent.objects.all():
        if agent.balance * _UNITS != expected[agent.pk]:
            yield f"{agent.pk} has {agent.balance}; deposits less settled are {expected[agent.pk] / _UNITS}."


def no_nonce_is_missing(evidence: Evidence) -> Iterator[str]:
    for relayer in Relayer.objects.all():
        mined = int(rpc("eth_getTransactionCount", relayer.address, "latest"), 16)
        if mined != relayer.next_nonce:
            yield f"{relayer}: {relayer.next_nonce} nonces were given out, the chain has {mined}."
    for row in Settlement.objects.filter(state__in=OPEN_STATES):
        yield f"{row.tx} is still {row.state}."

"""What the chains did, beside what our books say. Each check yields a sentence for everything that does not fit."""

import io
from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.core.management import CommandError, call_command

from foundation.kernel.assets import Asset
from foundation.kernel.money import from_base_units, to_base_units
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState
from payments.models import ChainState, Deposit, Leg, Outflow, Payment, Settlement
from policy.models import Agent, SignerSwitch
from tests.crash.depositor import STRANGER
from tests.crash.evidence import Evidence
from tests.crash.localnets import Deposited, Paid


def every_payment_ended_as_the_chain_says(evidence: Evidence) -> Iterator[str]:
    """Settled: paid exactly once on its chain, exact in asset, amount and recipient. Failed: never."""
    paid: dict[tuple[str, str], list[Paid]] = {}
    for alias, account in evidence.after.items():
        chain = evidence.world.networks[alias].localnet.caip2
        for event in account.paid:
            paid.setdefault((chain, event.escrow_id), []).append(event)
    # What was to void a payment is final, too, where it reverted because the payment was made.
    ended = Leg.objects.filter(settlement__state=SettlementState.FINAL, is_void=False, skipped=None)
    final = dict(ended.values_list("payment_id", "settlement_id"))
    for pk, payment in evidence.payments.items():
        events = paid.pop((payment.chain, payment.escrow_id), [])
        if payment.status == PaymentStatus.SETTLED:
            wanted = (payment.asset, payment.recipient, _units(payment))
            found = [(event.asset, event.recipient, event.units) for event in events]
            if found != [wanted] or final.get(pk) != events[0].tx:
                yield f"{pk} is settled by {final.get(pk)}; on chain there is {events}."
        elif payment.status == PaymentStatus.FAILED:
            if events:
                yield f"{pk} failed ({payment.failure_reason}) and was paid: {events}."
        else:
            yield f"{pk} came to no end; on chain there is {events}."
    for key, events in paid.items():
        yield f"{key} was paid, and nobody approved it: {events}."


def nobody_got_more_than_was_approved(evidence: Evidence) -> Iterator[str]:
    """Counted on the chains: what each id paid, and what each recipient got, is at most what is not given back."""
    allowed: Counter[tuple[str, str, Asset]] = Counter()
    owed = {}
    for payment in evidence.payments.values():
        if payment.status != PaymentStatus.FAILED:
            where = (payment.recipient, Asset(payment.asset))
            allowed[payment.chain, *where] += _units(payment)
            owed[payment.chain, payment.escrow_id] = (*where, _units(payment))
    got: Counter[tuple[str, str, Asset | None]] = Counter()
    for alias, account in evidence.after.items():
        localnet = evidence.world.networks[alias].localnet
        for event in account.paid:
            if event in evidence.before[alias].paid:
                continue
            got[localnet.caip2, event.recipient, event.asset] += event.units
            if owed.pop((localnet.caip2, event.escrow_id), None) != (event.recipient, event.asset, event.units):
                yield f"{event} left {alias}: it was not approved, is given back, is not what was, or is paid already."
        for recipient, asset in {(one.recipient, Asset(one.asset)) for one in evidence.payments_on(localnet.caip2)}:
            has = localnet.balance_of(recipient, asset)
            if has > allowed[localnet.caip2, recipient, asset] or has != got[localnet.caip2, recipient, asset]:
                yield f"{recipient} on {alias} has {has} base units of {asset}, more than approved or than it was sent."


def signing_was_never_stopped(evidence: Evidence) -> Iterator[str]:
    """Neither lying nodes nor who has the relayer's key makes anybody stop what both keys did."""
    for state in ChainState.objects.exclude(stopped_reason=""):
        yield f"Signing is stopped on {state.chain}: {state.stopped_reason}"
    for outflow in Outflow.objects.all():
        yield f"{outflow} on {outflow.chain} was taken for somebody else's: {outflow.why}"
    if not SignerSwitch.objects.filter(is_signing=True).exists():
        yield "The policy signer is out of service."


def recipients_have_what_settled(evidence: Evidence) -> Iterator[str]:
    """Nobody but us pays them: what they have is what settled."""
    settled: Counter[tuple[str, str, str]] = Counter()
    for payment in evidence.payments.values():
        is_settled = payment.status == PaymentStatus.SETTLED
        settled[payment.chain, payment.recipient, payment.asset] += _units(payment) if is_settled else 0
    localnets = {network.localnet.caip2: network.localnet for network in evidence.world.networks.values()}
    for (chain, recipient, asset), units in settled.items():
        has = localnets[chain].balance_of(recipient, Asset(asset))
        if has != units:
            yield f"{recipient} on {chain} has {has} base units of {asset}; settled was {units}."


def deposits_are_credited_once(evidence: Evidence) -> Iterator[str]:
    for alias, network in evidence.world.networks.items():
        deposited = evidence.new_deposits(alias)
        earlier = {one.tx for one in evidence.before[alias].deposited}
        rows = Deposit.objects.filter(chain=network.localnet.caip2).exclude(tx__in=earlier)
        on_chain: Counter[tuple[Any, ...]] = Counter(
            (one.tx, one.log_index, one.agent, one.asset, one.units) for one in deposited
        )
        found = Counter((one.tx, one.log_index, one.named_agent, Asset(str(one.asset)), _units(one)) for one in rows)
        for missing in on_chain - found:
            yield f"A deposit on {alias} was not found: {missing}."
        for invented in found - on_chain:
            yield f"A deposit on {alias} was never made, or is there twice: {invented}."
        totals: Counter[tuple[str, Asset | None]] = Counter()
        for event in deposited:
            totals[event.agent, event.asset] += event.units
        if totals != network.depositor.made:
            yield f"The escrow on {alias} got {dict(totals)}, deposited was {dict(network.depositor.made)}."
        for row in rows:
            credited = row.movement and (row.movement.agent_id, row.movement.amount)
            if credited != (None if row.named_agent == STRANGER else (row.named_agent, row.amount)):
                yield f"The deposit {row} of {row.named_agent} was credited as {credited}."


def escrows_hold_deposits_less_settled(evidence: Evidence) -> Iterator[str]:
    for alias, after in evidence.after.items():
        before = evidence.before[alias]
        for asset, held in before.held.items():
            expected = held + _total(evidence.new_deposits(alias), asset) - _total(after.paid, asset)
            if after.held[asset] != expected:
                yield f"The escrow on {alias} holds {after.held[asset]} base units of {asset}, not {expected}."


def balances_are_deposits_less_settled(evidence: Evidence) -> Iterator[str]:
    expected: Counter[str] = Counter()
    for alias in evidence.after:
        for one in evidence.new_deposits(alias):
            expected[one.agent] += one.units
    for payment in evidence.payments.values():
        if payment.status == PaymentStatus.SETTLED:
            expected[payment.agent_id] -= _units(payment)
    for agent in Agent.objects.all():
        wanted = from_base_units(expected[agent.pk], Asset(agent.asset))
        if agent.balance != wanted:
            yield f"{agent.pk} has {agent.balance}; deposits less settled are {wanted}."


def nothing_is_missing_or_open(evidence: Evidence) -> Iterator[str]:
    for network in evidence.world.networks.values():
        yield from network.localnet.find_gaps()
    for row in Settlement.objects.filter(state__in=OPEN_STATES):
        yield f"{row.tx} is still {row.state}."


def reconcile_finds_nothing(evidence: Evidence) -> Iterator[str]:
    output = io.StringIO()
    try:
        evidence.world.wait_until(lambda: _is_compared(output), "the escrows are compared with the ledger")
    except TimeoutError as error:
        yield f"{error}\n{output.getvalue()}"


def _is_compared(output: io.StringIO) -> bool:
    output.truncate(output.seek(0))
    try:
        call_command("reconcile", "--all", stdout=output, stderr=output)
    except CommandError:
        return False
    return True


def _total(events: list[Paid] | list[Deposited], asset: Asset) -> int:
    return sum(event.units for event in events if event.asset == asset)


def _units(row: Payment | Deposit) -> int:
    return to_base_units(row.amount, Asset(str(row.asset)))

"""Settlement: what was approved is sent, watched, and ends `settled` or `failed`.

Rows are the queue; tasks only say "look now". Each step may be repeated at any time by any process: sending the same
bytes twice is one transfer, and every change of state is a conditional update that exactly one process wins.
Source: design.md, "Settlement".
"""

import json
import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from allowance.kernel.assets import Asset
from allowance.kernel.times import utc_now
from ledger.models import MovementKind
from ledger.operations import move_balance
from payments.chains.base import ChainAdapter, ChainUnavailable, Finality, Inclusion, Order, TransactionRefused
from payments.events import payment_event
from payments.lifecycle import PaymentStatus, SettlementState, may_follow
from payments.models import ChainState, Payment, Relayer, Settlement
from policy.operations import lock_agent
from services.models import WebhookEvent

log = logging.getLogger(__name__)

BATCH_SIZE = 100
# A worker that died while sending is presumed dead after this; then its rows are anyone's.
CLAIM = timedelta(seconds=30)
# A transaction that a node took but no block holds is offered again after this: nodes forget.
RESEND_AFTER = timedelta(seconds=30)


def broadcast(chain: str, adapter: ChainAdapter) -> int:
    """Send the signed transactions of a chain in nonce order; returns how many a node took.

    One that a node refuses stays `signed` and is offered again when its claim runs out; it does not hold up the rest.

    Raises:
        ChainUnavailable: no node answered; what was not sent stays `signed`.
    """
    sent = 0
    while batch := _claim(chain):
        try:
            for settlement in batch:
                if _send(settlement, adapter):
                    _move(settlement, SettlementState.BROADCAST)
                    sent += 1
        except ChainUnavailable:
            # Whoever looks next may try at once. The claim ends, it is not forgotten: the node may have taken one.
            unsent = Settlement.objects.filter(pk__in=[row.pk for row in batch], state=SettlementState.SIGNED)
            unsent.update(claimed_until=utc_now())
            raise
    return sent


def confirm(chain: str, adapter: ChainAdapter) -> int:
    """Look for the open transactions of a chain and follow what is found; returns how many came to an end.

    Raises:
        ChainUnavailable: no node answered; nothing is concluded from that.
    """
    if not _watched(chain).exists():
        return 0
    ended = 0
    after = ""
    finality = adapter.find_finality()
    while batch := list(_watched(chain).filter(tx__gt=after).order_by("tx")[:BATCH_SIZE]):
        found = adapter.find_inclusions([(row.tx, _order(row.payment)) for row in batch], finality)
        for settlement in batch:
            inclusion = found.get(settlement.tx)
            if inclusion is None:
                ended += _follow_absence(settlement, finality, adapter)
            else:
                ended += _follow_inclusion(settlement, inclusion, finality, adapter)
        after = batch[-1].tx
    return ended


def observe(chain: str, adapter: ChainAdapter) -> None:
    """Refresh what the money path knows of a chain, and see to its relayers. Raises `ChainUnavailable`."""
    register_relayers(chain, adapter, settings.RELAYERS_PER_CHAIN)
    ChainState.objects.update_or_create(chain=chain, defaults={"state": adapter.observe(), "observed_at": utc_now()})


def register_relayers(chain: str, adapter: ChainAdapter, count: int) -> None:
    """Make sure that the first `count` relayers of a chain are known, new ones from the chain's own nonce on.

    Raises:
        ChainUnavailable: the nonce of a new relayer could not be read.
    """
    known = set(Relayer.objects.filter(chain=chain).values_list("number", flat=True))
    for number in set(range(count)) - known:
        Relayer.objects.get_or_create(
            chain=chain,
            number=number,
            defaults={"address": adapter.relayer_address(number), "next_nonce": adapter.relayer_nonce(number)},
        )


def _claim(chain: str) -> list[Settlement]:
    """Take the next signed transactions, relayer by relayer in nonce order, so that no other worker sends them."""
    now = utc_now()
    with transaction.atomic():
        batch = list(
            Settlement.objects.select_for_update(skip_locked=True)
            .filter(Q(claimed_until=None) | Q(claimed_until__lt=now), chain=chain, state=SettlementState.SIGNED)
            # By the column: a join would lock the relayers too, which payments in the making need.
            .order_by("relayer_id", "nonce")[:BATCH_SIZE]
        )
        Settlement.objects.filter(pk__in=[row.pk for row in batch]).update(claimed_until=now + CLAIM)
    return batch


def _send(settlement: Settlement, adapter: ChainAdapter) -> bool:
    try:
        adapter.send(bytes(settlement.raw))
    except TransactionRefused as error:
        log.warning("A node does not take %s now: %s", settlement.tx, error)
        return False
    return True


def _watched(chain: str) -> QuerySet[Settlement]:
    """Everything that may be on chain: what was sent, and what somebody may have sent without being able to say so."""
    return Settlement.objects.filter(
        Q(state__in=(SettlementState.BROADCAST, SettlementState.INCLUDED))
        | Q(state=SettlementState.SIGNED, claimed_until__lt=utc_now()),
        chain=chain,
    ).select_related("payment")


def _follow_inclusion(settlement: Settlement, inclusion: Inclusion, finality: Finality, adapter: ChainAdapter) -> bool:
    if not inclusion.is_final:
        if settlement.state != SettlementState.INCLUDED:
            _move(settlement, SettlementState.INCLUDED, block_number=inclusion.block_number)
        return False
    if inclusion.failure is None:
        return _settle(settlement, inclusion)
    if adapter.proves_absence(_order(settlement.payment), finality):
        return _fail(settlement, SettlementState.FAILED, inclusion.failure)
    # The escrow counts the payment as made, or cannot be asked: giving it back could pay it twice.
    log.error("Payment %s is neither settled nor proven failed, look at %s", settlement.payment_id, settlement.tx)
    return False


def _follow_absence(settlement: Settlement, finality: Finality, adapter: ChainAdapter) -> bool:
    if settlement.state == SettlementState.INCLUDED:
        # First back to where a transaction without a block belongs; the next look judges it as such.
        _move(settlement, SettlementState.BROADCAST, reason="Its block is no longer on the chain.")
    elif finality.time > settlement.valid_until and adapter.proves_absence(_order(settlement.payment), finality):
        # From here on the escrow refuses it by its deadline: proof of failure, not absence of news.
        return _fail(settlement, SettlementState.EXPIRED, "Not included before its deadline.")
    elif utc_now() - settlement.changed_at > RESEND_AFTER and _send(settlement, adapter):
        Settlement.objects.filter(pk=settlement.pk).update(changed_at=utc_now())
    return False


def _settle(settlement: Settlement, inclusion: Inclusion) -> bool:
    now = utc_now()
    with transaction.atomic():
        if not _move(settlement, SettlementState.FINAL, block_number=inclusion.block_number):
            return False
        Payment.objects.filter(pk=settlement.payment_id, status=PaymentStatus.APPROVED).update(
            status=PaymentStatus.SETTLED, settled_at=now
        )
        _tell_payee(settlement, PaymentStatus.SETTLED, now)
    return True


def _fail(settlement: Settlement, state: SettlementState, reason: str) -> bool:
    """Give back what a payment took: the balance now, the windows by the payment's original time."""
    now = utc_now()
    payment = settlement.payment
    with transaction.atomic():
        agent = lock_agent(payment.agent_id)
        if not _move(settlement, state, reason=reason):
            return False
        Payment.objects.filter(pk=payment.pk, status=PaymentStatus.APPROVED).update(
            status=PaymentStatus.FAILED, failed_at=now, failure_reason=reason
        )
        move_balance(
            agent,
            kind=MovementKind.RETURN,
            amount=payment.amount,
            by="settlement",
            reason=reason,
            payment_id=payment.pk,
            spent_at=payment.created_at,
        )
        _tell_payee(settlement, PaymentStatus.FAILED, now)
    log.warning("Payment %s failed and was given back: %s", payment.pk, reason)
    return True


def _move(settlement: Settlement, state: SettlementState, *, reason: str = "", block_number: int | None = None) -> bool:
    """Change a settlement's state if it still is what it was when it was read; tell whether it was."""
    old = SettlementState(settlement.state)
    if not may_follow(old, state):
        raise AssertionError(f"{settlement.tx} may not go from {old} to {state}.")
    won = Settlement.objects.filter(pk=settlement.pk, state=old).update(
        state=state, reason=reason, block_number=block_number, changed_at=utc_now(), claimed_until=None
    )
    settlement.state = state
    return won == 1


def _tell_payee(settlement: Settlement, status: PaymentStatus, at: datetime) -> None:
    payment = Payment.objects.select_related("entry", "service").get(pk=settlement.payment_id)
    if payment.service.webhook_url is None:
        return
    event = payment_event(status, payment.entry, f"{payment.chain}:{payment.recipient}", settlement.tx, at)
    WebhookEvent.objects.create(
        id=event["id"],
        service=payment.service,
        type=event["type"],
        payload=json.dumps(event, ensure_ascii=False),
        created_at=at,
    )


def _order(payment: Payment) -> Order:
    return Order(payment.pk, Asset(payment.asset), payment.amount, payment.recipient)

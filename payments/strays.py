"""Strays: transactions that took money out of an escrow, and that are not known here by their id.

A payment on a chain without nonces is given back, or signed again, once its transaction is proven absent. That proof is
about an id, and one payment can have others: a relayer's key signs the same message in many ways, each of which makes
another id; and a database that was restored does not know what was signed after its backup. So nothing is concluded
before the escrow's own history was searched, and whatever names a payment of ours there is one of its transactions:
what leaves the escrow has both keys' signatures, or is its issuer's doing.
"""

import logging
from collections.abc import Sequence
from datetime import timedelta

from allowance.kernel.times import utc_now
from payments.chains.base import ChainAdapter, Finality, StraySighting
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import DepositCursor, Payment, Settlement
from payments.signing import stop_signing_on
from payments.verdicts import Place, is_late

log = logging.getLogger(__name__)

# The search goes on every few seconds. After a longer break, such as until a backup was restored, something may be
# under way that is not known here: so many blocks later it has landed, or never will.
BREAK = timedelta(seconds=30)
STRAYS_LAST_BLOCKS = 300
# Until when a transaction can land is one node's word: it may be too low by as many blocks as are not final.
MARGIN = 64
# So many blocks the search may be behind what there is to be searched.
_MOST_BEHIND = 100


def note_break(chain: str, finality: Finality) -> None:
    """Note, if the escrow's history was not searched for a while, until when what is not known here can land."""
    cursors = DepositCursor.objects.filter(chain=chain, moved_at__lt=utc_now() - BREAK)
    cursors.update(strays_until_height=finality.height + STRAYS_LAST_BLOCKS)


def find_search(chain: str, adapter: ChainAdapter) -> DepositCursor | None:
    """Find out how far the history of the escrow was searched; None: it was not."""
    return DepositCursor.objects.filter(chain=chain, escrow=adapter.escrow).first()


def can_end(place: Place, finality: Finality, search: DepositCursor | None, adapter: ChainAdapter) -> bool:
    """Tell whether a payment may end because its own transaction is absent: no other one of its can be in a block.

    Where the escrow itself counts payments, and before a deadline, that is no question.
    """
    row = place.current
    if adapter.nonces is not None or row.valid_until_height is None or not is_late(row, finality):
        return True
    if search is None or search.block_number is None or any(other.is_stray for other in place.others):
        return False
    last_height = max(row.valid_until_height + MARGIN, search.strays_until_height or 0)
    newest = finality.block_number - adapter.deposits_trail - _MOST_BEHIND
    return search.block_number >= max(last_height + finality.skipped, newest)


def adopt_strays(chain: str, found: Sequence[StraySighting]) -> None:
    """Write down, as transactions of the payments that they name, what is not known yet.

    Following them then ends the payments. What cannot be one of its payment's stops signing on the chain. Call it last
    in the transaction that says that these blocks were searched.
    """
    known = set(Settlement.objects.filter(pk__in={one.tx for one in found}).values_list("pk", flat=True))
    new = [one for one in found if one.tx not in known]
    # Locked: a payment may be about to end.
    named = Payment.objects.select_for_update(no_key=True).filter(
        chain=chain, pk__in={one.named_payment for one in new}
    )
    payments = {payment.pk: payment for payment in named.order_by("pk")}
    unknown = [one for one in new if one.named_payment not in payments]
    if unknown:
        log.error(
            "%s: %s transactions took money out of the escrow and name no payment of ours, such as %s",
            chain, len(unknown), unknown[0].tx,
        )  # fmt: skip
    for one in new:
        if one.named_payment in payments:
            _adopt(one, payments[one.named_payment])


def stop_if_paid_twice(place: Place, landed: Settlement) -> None:
    """Stop signing on a chain on which a payment's own transaction landed, and a stray has paid it, too."""
    for other in place.others:
        if other.is_stray and other.pk != landed.pk:
            _stop(other.tx, landed.chain, landed.payment_id)


def _adopt(found: StraySighting, payment: Payment) -> None:
    if payment.status != PaymentStatus.APPROVED or (found.asset, found.amount) != (payment.asset, payment.amount):
        log.critical("%s took %s %s for %s, which is %s", found.tx, found.amount, found.asset, payment, payment.status)
        _stop(found.tx, payment.chain, payment.pk)
        return
    log.critical("%s is paid by %s, which was not known: see who has the relayer's key", payment.pk, found.tx)
    now = utc_now()
    Settlement.objects.create(
        tx=found.tx,
        payment=payment,
        chain=payment.chain,
        relayer=payment.settlements.latest("created_at").relayer,
        nonce=None,
        raw=b"",
        state=SettlementState.REPLACED,
        reason="Found in the history of the escrow.",
        created_at=now,
        changed_at=now,
    )


def _stop(tx: str, chain: str, payment_id: str | None) -> None:
    stop_signing_on(chain, reason=f"{tx} was paid for {payment_id} and should not have been.")

"""Give back the payments that their payees have not taken (x402): their authorizations have expired unused.

What a payee took is found in the history of the escrow (`payments.reconciling.outflows`), and settled there. Nothing is
concluded from its absence. A payment ends unpaid when the chain's final time has come to the end of its authorization
by all nodes (`Finality.time_by_all`), and all say as of that block or a later one that the token does not count it as
used, nor the escrow its id as paid or void: then no block can take it any more. Source: docs/architecture.md.
"""

import logging

from django.db.models import QuerySet

from chains.port import ChainAdapter, PaymentFate, Submitter, TransactionQuery
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.telemetry.context import working_on
from payments.lifecycle import PaymentStatus
from payments.models import Payment
from payments.settling.transaction_rows import BATCH_SIZE, order_of
from payments.settling.transitions import fail

log = logging.getLogger(__name__)

NOT_TAKEN = "The payee did not take it before its authorization expired."
_NOBODY = Submitter(0, "0x" + "00" * 20, None)


def give_back_expired(chain: str, adapter: ChainAdapter) -> int:
    """Give back the payments of a chain that no payee can take any more; returns how many.

    Raises:
        ChainUnavailable: no node answered; nothing is concluded from that.
    """
    if adapter.authorizations is None or not _approved_on(chain).exists():
        return 0
    finality = adapter.follower.find_finality()
    # A token accepts an authorization only in blocks before its end, and no block is earlier than the one before it.
    over = list(_approved_on(chain).filter(authorized_until__lt=finality.time_by_all).order_by("pk")[:BATCH_SIZE])
    fates = adapter.prover.find_fates([_query_of(payment) for payment in over], finality) if over else {}
    return sum(_end(payment, fates[payment.pk].payments[payment.escrow_id]) for payment in over)


def _approved_on(chain: str) -> QuerySet[Payment]:
    return Payment.objects.filter(chain=chain, status=PaymentStatus.APPROVED, authorized_until__isnull=False)


def _query_of(payment: Payment) -> TransactionQuery:
    """Ask for the payment alone: it has no transaction of ours, whose place its id takes."""
    return TransactionQuery(payment.pk, b"", _NOBODY, [order_of(payment)], None, "")


def _end(payment: Payment, fate: PaymentFate) -> int:
    with working_on(paymentId=payment.pk, agentId=payment.agent_id):
        if fate is not PaymentFate.UNPAID:
            message = "Payment %s is not unpaid: its escrow's history will tell what it is"
            log_once_a_minute(log, logging.WARNING, message, payment, about=payment.pk)
            return 0
        return fail(payment, reason=NOT_TAKEN)

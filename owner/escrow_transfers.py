"""Transfers of tokens from one of our escrows to the next one: its keys are rotated, or it is of an earlier release.

A transfer is booked before it is sent, so that neither escrow takes it for an unknown outflow or for a deposit. It is
marked as landed by whichever search finds it first: that of the old escrow's history, when the tokens leave
(`reconciling.outflows`), or that of the next escrow's, when they arrive (`payments.funding.deposits`).
"""

from collections.abc import Iterable
from decimal import Decimal

from django.db import transaction
from django.db.models import Max, QuerySet

from foundation.kernel.assets import Asset
from foundation.kernel.ids import new_id
from foundation.kernel.times import utc_now
from payments.models import Withdrawal

# A transfer lands within the lifetime of a blockhash after the search had reached the block it began at. This is ten
# times as long.
_OVERLAP_BLOCKS = 2_000


def book_transfer(chain: str, *, escrow: str, asset: Asset, amount: Decimal, recipient: str, by: str) -> Withdrawal:
    """Book a transfer from an escrow to the account `recipient` of the next one; it is no agent's money."""
    now = utc_now()
    return Withdrawal.objects.create(
        reference=new_id("mov", now),
        chain=chain,
        escrow=escrow,
        asset=asset,
        amount=amount,
        recipient=recipient,
        author=by,
        reason="It moves to the next escrow.",
        created_at=now,
    )


def find_transfers(chain: str) -> QuerySet[Withdrawal]:
    """Find the transfers between escrows of a chain."""
    return Withdrawal.objects.filter(chain=chain, agent=None)


def find_open_transfers(chain: str, escrow: str) -> QuerySet[Withdrawal]:
    """Find the transfers out of an escrow that have neither landed nor been cancelled."""
    return find_transfers(chain).filter(escrow=escrow, landed_block=None, cancelled_at=None)


def cancel_transfers(transfers: Iterable[Withdrawal]) -> None:
    """Cancel these transfers. Call it only once no transaction that was signed for them can be included any more."""
    with transaction.atomic():
        rows = Withdrawal.objects.filter(pk__in=[transfer.pk for transfer in transfers], landed_block=None)
        # Locked as they are where they are marked as landed.
        pks = list(rows.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
        Withdrawal.objects.filter(pk__in=pks).update(cancelled_at=utc_now())


def find_searched_block(chain: str, escrow: str, first_block: int) -> int:
    """Find up to which block the history of a former escrow was surely searched; `first_block` is the next escrow's."""
    landed = find_transfers(chain).filter(escrow=escrow).aggregate(newest=Max("landed_block"))["newest"]
    return max(first_block - 1, (landed or 0) - _OVERLAP_BLOCKS, 0)

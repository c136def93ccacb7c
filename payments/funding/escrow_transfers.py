"""Tokens on their way to the escrow of other keys: booked first, so that neither end takes them for something else.

The search of the old escrow's history marks them as landed when they leave (`reconciling.outflows`), that of the next
one's when they arrive (`payments.funding.deposits`), whichever comes first.
"""

from collections.abc import Iterable
from decimal import Decimal

from django.db import transaction
from django.db.models import Max, QuerySet

from allowance.kernel.assets import Asset
from allowance.kernel.ids import new_id
from allowance.kernel.times import utc_now
from payments.models import Withdrawal

# A move lands within a blockhash's time after the history was searched up to where it began: a tenth of this.
_OVERLAP_BLOCKS = 2_000


def book_move(chain: str, *, escrow: str, asset: Asset, amount: Decimal, recipient: str, by: str) -> Withdrawal:
    """Book that tokens move from an escrow to the account `recipient` of the next one; it is no agent's money."""
    now = utc_now()
    return Withdrawal.objects.create(
        reference=new_id("mov", now),
        chain=chain,
        escrow=escrow,
        asset=asset,
        amount=amount,
        recipient=recipient,
        author=by,
        reason="The keys are rotated: it moves to the next escrow.",
        created_at=now,
    )


def find_moves(chain: str) -> QuerySet[Withdrawal]:
    """Find what moved, or moves, between escrows of a chain."""
    return Withdrawal.objects.filter(chain=chain, agent=None)


def find_open_moves(chain: str, escrow: str) -> QuerySet[Withdrawal]:
    """Find what is on its way out of an escrow."""
    return find_moves(chain).filter(escrow=escrow, landed_block=None, cancelled_at=None)


def give_up(moves: Iterable[Withdrawal]) -> None:
    """Book that these did not happen. Call it only once nothing that was signed for them can land any more."""
    with transaction.atomic():
        rows = Withdrawal.objects.filter(pk__in=[move.pk for move in moves], landed_block=None)
        # Locked as by who marks them as landed.
        pks = list(rows.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
        Withdrawal.objects.filter(pk__in=pks).update(cancelled_at=utc_now())


def find_start(chain: str, escrow: str, first_block: int) -> int:
    """Find up to where the history of an escrow that was left was searched; `first_block` is the next one's."""
    landed = find_moves(chain).filter(escrow=escrow).aggregate(newest=Max("landed_block"))["newest"]
    return max(first_block - 1, (landed or 0) - _OVERLAP_BLOCKS, 0)

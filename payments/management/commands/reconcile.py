"""`manage.py reconcile [--chain C] [--all]`."""

import json
from decimal import Decimal
from typing import Any

from django.core.management.base import CommandError, CommandParser

from allowance.commands import JsonCommand
from allowance.kernel.money import format_amount
from payments.books import Imbalance, find_unattributed
from payments.chains.base import ChainUnavailable
from payments.chains.registry import served_chains
from payments.management.chains import read_chain
from payments.models import Reconciliation, Verdict
from payments.reconciliation import check_books, reconcile
from services.chains import find_chain

_HEAD = ("chain", "asset", "block", "holds", "booked", "in flight", "drift", "verdict", "receipts", "wrong")
_FORM = "{:<16} {:<6} {:>10} {:>18} {:>18} {:>14} {:>18}  {:<8} {:>8} {:>6}"


class Command(JsonCommand):
    help = (
        "Compare, per chain and asset, what the escrow holds with what the ledger says: deposits and what was booked "
        "by hand, less what was settled. What payments in flight explain is no drift. Above it is a surplus, below it "
        "money is missing. Settled payments are checked against their receipts and the escrow, ten minutes after they "
        "were settled. The same runs every minute by itself; it may run at any time. Ends with status 1 if money is "
        "missing, if a payment is not confirmed, if the balances do not add up, or if a chain cannot be compared now."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--chain", metavar="CHAIN", help="Only this chain: an alias such as base, or CAIP-2.")
        parser.add_argument("--all", action="store_true", help="Sum up and check every payment ever settled again.")

    def perform(self, **options: Any) -> dict[str, Any]:
        chains = list(served_chains()) if options["chain"] is None else [read_chain(options["chain"])]
        rows, not_compared = [], {}
        self.stdout.write(_FORM.format(*_HEAD))
        for chain in chains:
            found, trouble = _reconcile(chain, is_thorough=options["all"])
            if trouble:
                not_compared[chain] = trouble
            for row in found:
                self.stdout.write(_FORM.format(*_cells(row)))
            rows += found
        imbalances, unattributed = check_books(), find_unattributed()
        self._tell(rows, not_compared, imbalances, unattributed)
        result = {
            "comparisons": [_present(row) for row in rows],
            "notCompared": not_compared,
            "unattributed": {asset: format_amount(total) for asset, total in unattributed.items()},
            "imbalances": {one.asset: format_amount(one.balances - one.explained) for one in imbalances},
        }
        if not_compared or imbalances or any(_is_alarm(row) for row in rows):
            self.stdout.write(json.dumps(result))
            raise CommandError("Not everything is accounted for.")
        return result

    def _tell(
        self,
        rows: list[Reconciliation],
        not_compared: dict[str, str],
        imbalances: list[Imbalance],
        unattributed: dict[str, Decimal],
    ) -> None:
        for chain, trouble in not_compared.items():
            self.stderr.write(f"{chain}: not compared. {trouble}")
        for asset, total in unattributed.items():
            self.stdout.write(f"Booked by hand without a chain: {format_amount(total)} {asset}")
        for row in rows:
            for payment_id in row.unconfirmed:
                self.stderr.write(f"{row.chain}: {payment_id} is settled, and the chain does not confirm it.")
        for one in imbalances:
            self.stderr.write(
                f"The balances in {one.asset} are {format_amount(one.balances)}; what came in, less what was spent, "
                f"is {format_amount(one.explained)}."
            )


def _reconcile(chain: str, *, is_thorough: bool) -> tuple[list[Reconciliation], str]:
    try:
        rows = reconcile(chain, served_chains()[chain], is_thorough=is_thorough)
    except ChainUnavailable as error:
        return [], str(error)
    return rows, "" if rows else "The search for deposits is behind the chain, or the nodes are."


def _is_alarm(row: Reconciliation) -> bool:
    return row.verdict == Verdict.MISSING or bool(row.unconfirmed)


def _cells(row: Reconciliation) -> tuple[Any, ...]:
    amounts = (format_amount(amount) for amount in (row.holds, row.booked, row.in_flight, row.drift))
    known = find_chain(row.chain)
    name = known.alias if known else row.chain
    return name, row.asset, row.block_number, *amounts, row.verdict, row.receipts_checked, len(row.unconfirmed)


def _present(row: Reconciliation) -> dict[str, Any]:
    return {
        "chain": row.chain,
        "asset": row.asset,
        "block": row.block_number,
        "holds": format_amount(row.holds),
        "booked": format_amount(row.booked),
        "inFlight": format_amount(row.in_flight),
        "drift": format_amount(row.drift),
        "verdict": row.verdict,
        "receiptsChecked": row.receipts_checked,
        "unconfirmed": row.unconfirmed,
    }

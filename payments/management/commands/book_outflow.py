"""`manage.py book_outflow TX [--index N] (--agent ID | --loss) --reason R`."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from allowance.commands import AUTHOR, JsonCommand
from allowance.kernel.money import format_amount
from payments.models import Outflow
from payments.reconciling.outflow_booking import book_outflow


class Command(JsonCommand):
    help = (
        "Book an outflow that the ledger did not know; `reconcile` lists these. --agent: the money was that agent's, "
        "such as a payment that a restored backup does not know; its balance falls. --loss: no balance falls; the "
        "surplus bears the loss, or more is promised than held. Run start_chain afterwards."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tx", metavar="TX", help="The transaction.")
        parser.add_argument("--index", type=int, metavar="N", help="Which outflow, if the transaction has several.")
        whose = parser.add_mutually_exclusive_group(required=True)
        whose.add_argument("--agent", metavar="ID", help="Whose money it was.")
        whose.add_argument("--loss", action="store_true", help="It was taken without right.")
        parser.add_argument("--reason", required=True, metavar="R", help="What it turned out to be; it is kept.")

    def perform(self, **options: Any) -> dict[str, Any]:
        found = _find(options["tx"], options["index"])
        outflow = book_outflow(found.pk, by=AUTHOR, reason=options["reason"], agent_id=options["agent"])
        return {
            "tx": outflow.tx,
            "index": outflow.log_index,
            "chain": outflow.chain,
            "amount": format_amount(outflow.amount),
            "asset": outflow.asset,
            "agent": options["agent"],
            "note": outflow.note,
        }


def _find(tx: str, index: int | None) -> Outflow:
    rows = list(Outflow.objects.filter(tx=tx).order_by("log_index"))
    if index is not None:
        rows = [row for row in rows if row.log_index == index]
    if len(rows) > 1:
        known = ", ".join(str(row.log_index) for row in rows)
        raise CommandError(f"{len(rows)} outflows are known of {tx}: give --index, one of {known}.")
    if not rows:
        raise CommandError(f"No outflow is known of {tx}" + ("." if index is None else f" with the index {index}."))
    return rows[0]

"""`manage.py book_outflow (TX [--index N] | --all [--from FILE …]) [--agent ID | --loss] --reason R`."""

import json
from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandError, CommandParser

from foundation.commands import AUTHOR, JsonCommand
from foundation.progress_bar import ProgressBar
from payments.management.outflow_files import read_statements
from payments.management.outflow_output import present_outflow, present_sums, print_plan
from payments.models import Outflow
from payments.proposals import BOOK
from payments.reconciling.outflow_booking import book_outflow, find_open_outflows
from payments.reconciling.outflow_lists import Plan, book, plan_bookings
from payments.reconciling.outflow_owners import Owner, Owners
from staff.change_requests import find_waiting


class Command(JsonCommand):
    help = (
        "Book outflows that the ledger did not know; `reconcile` lists these. --agent: the money was that agent's, "
        "such as a payment that a restored backup does not know; its balance falls. --loss: no balance falls; the "
        "surplus bears the loss, or more is promised than held. --all books all whose agents the ledger or the files "
        "know, after it has shown them and asked once; those that nothing is known of stay open, unless --agent or "
        "--loss says what they are. If it is interrupted, run it again: it goes on. Run start_chain afterwards."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tx", metavar="TX", nargs="?", help="The transaction of a single one.")
        parser.add_argument("--index", type=int, metavar="N", help="Which outflow, if the transaction has several.")
        parser.add_argument("--all", action="store_true", help="All that are open.")
        parser.add_argument(
            "--from", action="append", default=[], metavar="FILE", dest="files",
            help="With --all: a file that says whose they were; more than one may be given. JSON lines: exported log "
            "entries, which must bear our signature; exported payments; the processes' logs; webhooks. Or CSV with a "
            "header: agent and tx, with index if the transaction has several; or agent and idempotencyKey.",
        )  # fmt: skip
        whose = parser.add_mutually_exclusive_group()
        whose.add_argument("--agent", metavar="ID", help="Whose money it was.")
        whose.add_argument("--loss", action="store_true", help="It was taken without right.")
        parser.add_argument("--yes", action="store_true", help="With --all: do not ask.")
        parser.add_argument("--reason", required=True, metavar="R", help="What it turned out to be; it is kept.")

    def perform(self, **options: Any) -> dict[str, Any]:
        if options["all"] == (options["tx"] is not None) or (options["files"] and not options["all"]):
            raise CommandError("Give a transaction, or --all; --from goes with --all.")
        if options["all"]:
            return self._book_all(**options)
        if options["agent"] is None and not options["loss"]:
            raise CommandError("Give one of --agent ID and --loss.")
        return self._book_one(**options)

    def _book_one(self, **options: Any) -> dict[str, Any]:
        found = _find(options["tx"], options["index"])
        outflow = book_outflow(found.pk, by=AUTHOR, reason=options["reason"], agent_id=options["agent"])
        return present_outflow(outflow, agent=options["agent"], note=outflow.note)

    def _book_all(self, **options: Any) -> dict[str, Any]:
        rest = Owner(options["agent"] or "", "you", is_proven=False) if options["agent"] or options["loss"] else None
        plan = _plan(options["files"], rest)
        print_plan(plan, self.stdout.write)
        booked, refused = 0, []
        if plan.bookings:
            if not options["yes"]:
                self._ask(len(plan.bookings))
            bar = ProgressBar(len(plan.bookings))
            refused = book(plan, by=AUTHOR, reason=options["reason"], tell=bar.draw)
            bar.end()
            booked = len(plan.bookings) - len(refused)
        left = [present_outflow(one, why=why) for one, why in (*plan.left, *refused)]
        result = {"booked": booked, "as": present_sums(plan), "notBooked": left}
        if refused:
            self.stdout.write(json.dumps(result))
            raise CommandError("\n".join(f"{one}: {why}" for one, why in refused))
        return result

    def _ask(self, count: int) -> None:
        """Ask once, after all was shown.

        Raises:
            CommandError: the answer is another one, or there is nobody to ask.
        """
        self.stdout.write(f"Book these {count}? Type yes to go on:")
        self.stdout.flush()
        try:
            answer = input()
        except EOFError:
            raise CommandError("Nothing was booked. There is nobody to ask: --yes goes on without asking.") from None
        if answer.strip().lower() != "yes":
            raise CommandError("Nothing was booked.")


def _plan(files: Sequence[str], rest: Owner | None) -> Plan:
    outflows = list(find_open_outflows())
    owners = Owners(outflows)
    for path in files:
        for statement in read_statements(path):
            owners.hear(statement)
    waiting = frozenset(one.arguments["outflow"] for one in find_waiting() if one.kind == BOOK)
    return plan_bookings(outflows, owners, rest=rest, asked_for=waiting)


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

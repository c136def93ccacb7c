"""`manage.py create_agent ID --asset A --max-per-payment X --daily-limit Y --weekly-limit Z [--fund N [--chain C]]`."""

from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction

from allowance.commands import AUTHOR, JsonCommand, add_reason, read_amount
from allowance.kernel.assets import Asset
from ledger.serializers import present_budget
from payments.funding.credits import fund_agent
from payments.management.movement_options import add_chain, find_chain_to_credit
from policy.operations import Limits, create_agent


class Command(JsonCommand):
    help = "Create an agent with its allowance and first policy. A limit of 0 lets nothing pass. Prints its budget."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="The agent's id: 1 to 255 characters of your choice.")
        parser.add_argument(
            "--asset", required=True, choices=[asset.value for asset in Asset], help="The allowance's asset."
        )
        parser.add_argument("--max-per-payment", required=True, metavar="AMOUNT", help="Limit of a single payment.")
        parser.add_argument("--daily-limit", required=True, metavar="AMOUNT", help="Limit of any 24 hours.")
        parser.add_argument("--weekly-limit", required=True, metavar="AMOUNT", help="Limit of any 7 days.")
        parser.add_argument(
            "--fund",
            metavar="AMOUNT",
            help="Credit the allowance with this amount of an escrow's surplus, as fund_agent does.",
        )
        add_chain(parser, help_text="The chain of the surplus; by default, the one with the largest.")
        parser.add_argument(
            "--service",
            nargs="+",
            action="extend",
            metavar="ID",
            help="Allow only these services; by default, every approved service is allowed.",
        )
        add_reason(parser)

    def perform(self, **options: Any) -> dict[str, Any]:
        asset = Asset(options["asset"])
        limits = Limits(
            max_per_payment=read_amount(options["max_per_payment"], asset, "--max-per-payment"),
            daily_limit=read_amount(options["daily_limit"], asset, "--daily-limit"),
            weekly_limit=read_amount(options["weekly_limit"], asset, "--weekly-limit"),
            allowed_services=options["service"],
        )
        amount = None if options["fund"] is None else read_amount(options["fund"], asset, "--fund")
        # Before the transaction: nobody may have to wait for an answer of the nodes.
        chain = None if amount is None else find_chain_to_credit(options["chain"], asset)
        with transaction.atomic():
            why = {"by": AUTHOR, "reason": options["reason"]}
            create_agent(options["id"], asset=asset, limits=limits, **why)
            if amount is not None and chain is not None:
                fund_agent(options["id"], amount=amount, chain=chain, **why)
        return present_budget(options["id"])

"""`manage.py create_agent ID --asset A --max-per-payment X --daily-limit Y --weekly-limit Z …`, or `--from FILE`."""

from decimal import Decimal
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from foundation.commands import AUTHOR, JsonCommand, add_reason, read_amount
from foundation.groups import group_of, within
from foundation.kernel.assets import Asset
from foundation.kernel.money import format_amount
from foundation.progress_bar import ProgressBar
from ledger.serializers import present_budget
from payments.funding.credits import fund_agent
from payments.management.agent_file import read_agent_file
from payments.management.agent_making import make_agents, open_key_file
from payments.management.movement_options import add_chain, find_chain_to_credit
from policy.agent_ids import check_is_distinct
from policy.limits import Limits
from policy.management.limit_options import add_limit_options, read_named_limits
from policy.more_limits import PART_OF_FIELD, MoreLimits
from policy.operations import create_agent

_OF_ONE = ("id", "asset", "max_per_payment", "daily_limit", "weekly_limit")


class Command(JsonCommand):
    help = (
        "Create an agent with its allowance and first policy, and print its budget. A limit of 0 lets nothing pass. "
        "--from makes all agents of a CSV file, whose first line names the columns id, asset, max_per_payment, "
        "daily_limit, weekly_limit, and if wanted fund, chain, services (separated by spaces or ;) and optional "
        "limits, such as hourly_limit (an empty cell: no such limit). A parent is an agent that exists, or of an "
        "earlier line. Before anything is made, every line that is wrong is named, and the sum of fund must be "
        "covered. An agent that exists with the same asset and policy stays as it is, unfunded: so another run "
        "finishes one that was interrupted."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", nargs="?", help="The agent's id: up to 64 letters, digits, `.`, `-` and `_`.")
        parser.add_argument("--asset", choices=[asset.value for asset in Asset], help="The allowance's asset.")
        parser.add_argument("--max-per-payment", metavar="AMOUNT", help="Limit of a single payment.")
        parser.add_argument("--daily-limit", metavar="AMOUNT", help="Limit of any 24 hours.")
        parser.add_argument("--weekly-limit", metavar="AMOUNT", help="Limit of any 7 days.")
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
        parser.add_argument("--from", dest="file", metavar="FILE", help="Make the agents of this CSV file instead.")
        parser.add_argument(
            "--keys", metavar="FILE", help="With --from: make an API key for each new agent, and write them here (CSV)."
        )
        add_limit_options(parser, "A policy need not have these: an agent has those that are given.")
        add_reason(parser)

    def perform(self, **options: Any) -> dict[str, Any]:
        of_one = (*_OF_ONE, "fund", "chain", "service", *PART_OF_FIELD)
        given = [name for name in of_one if options[name] is not None]
        if options["file"] is not None and not given:
            return self._make_all(options)
        if options["file"] is not None or options["keys"] is not None:
            raise CommandError("With --from, everything about the agents is in the file; --keys goes with --from only.")
        if any(options[name] is None for name in _OF_ONE):
            raise CommandError(
                "Give the id, --asset, --max-per-payment, --daily-limit, --weekly-limit; or --from FILE."
            )
        return self._make_one(options)

    def _make_one(self, options: dict[str, Any]) -> dict[str, Any]:
        asset = Asset(options["asset"])
        check_is_distinct(options["id"])
        limits = Limits(
            max_per_payment=read_amount(options["max_per_payment"], asset, "--max-per-payment"),
            daily_limit=read_amount(options["daily_limit"], asset, "--daily-limit"),
            weekly_limit=read_amount(options["weekly_limit"], asset, "--weekly-limit"),
            allowed_services=options["service"],
            more=MoreLimits(**read_named_limits(options, asset)),
        )
        amount = None if options["fund"] is None else read_amount(options["fund"], asset, "--fund")
        # Before the transaction: nobody may have to wait for an answer of the nodes.
        chain = None if amount is None else find_chain_to_credit(options["chain"], asset)
        with within(group_of(options["id"], below=limits.more.parent)), transaction.atomic():
            why = {"by": AUTHOR, "reason": options["reason"]}
            create_agent(options["id"], asset=asset, limits=limits, **why)
            if amount is not None and chain is not None:
                fund_agent(options["id"], amount=amount, chain=chain, **why)
        return present_budget(options["id"])

    def _make_all(self, options: dict[str, Any]) -> dict[str, Any]:
        found = read_agent_file(options["file"])
        if found.unchanged:
            self.stderr.write(f"{len(found.unchanged):,} agents exist with the same policy and stay as they are.")
        sums: dict[str, Decimal] = {}
        if found.new:
            with open_key_file(options["keys"]) as keys:
                bar = ProgressBar(len(found.new))
                sums = make_agents(found.new, keys=keys, by=AUTHOR, reason=options["reason"], report=bar.draw)
                bar.end()
        return {
            "created": len(found.new),
            "unchanged": found.unchanged,
            "funded": {asset: format_amount(amount) for asset, amount in sums.items()},
            "keys": options["keys"] if found.new else None,
        }

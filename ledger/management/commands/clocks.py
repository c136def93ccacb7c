"""`manage.py clocks [--repair AGENT --reason R]`."""

import json
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser

from foundation.commands import AUTHOR, JsonCommand
from foundation.kernel.times import LARGEST_SKEW, format_instant
from ledger.clocks import clocks_agree, find_ahead, find_waiting, read_clocks, repair_clock
from policy.models import Agent


class Command(JsonCommand):
    help = (
        "Show the database's clock and this machine's, and the agents whose last log entry is in the future because "
        f"a clock had jumped. If one is ahead of another by more than {LARGEST_SKEW.seconds} s, payments get 503, and "
        "the command ends with status 1. An agent that is ahead keeps those waiting with which it shares a budget, "
        "until it is repaired, too. Run it on each machine. Once the clocks are right, --repair lets an agent go "
        "on. Its entries stay as they are. What was spent in them counts in its limits until the moment that they are "
        "dated with has left each window."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--repair", metavar="AGENT", help="Let this agent go on at the present time.")
        parser.add_argument("--reason", metavar="R", default="", help="Why; kept with the repair.")

    def perform(self, **options: Any) -> dict[str, Any]:
        if options["repair"] is not None:
            repair = repair_clock(options["repair"], by=AUTHOR, reason=options["reason"])
            return {
                "agentId": repair.agent_id,
                "repair": repair.number,
                "lastEntry": repair.head_id,
                "lastEntryAt": format_instant(repair.head_at),
                "repairedAt": format_instant(repair.repaired_at),
            }
        return self._show()

    def _show(self) -> dict[str, Any]:
        reading = read_clocks()
        agents = [_describe(agent, reading.database) for agent in find_ahead(reading.database)]
        result = {
            "database": format_instant(reading.database),
            "process": format_instant(reading.after),
            "databaseAheadS": reading.skew.total_seconds(),
            "agents": agents,
        }
        is_trusted = clocks_agree(reading)
        if agents or not is_trusted:
            self.stdout.write(json.dumps(result, ensure_ascii=False))
            refused = sorted({name for one in agents for name in (one["agentId"], *one["waiting"])})
            whose = ", ".join(refused) if is_trusted else "all agents on this machine"
            raise CommandError(f"Payments of {whose} are answered with 503.")
        return result


def _describe(agent: Agent, now: datetime) -> dict[str, Any]:
    """Say of an agent that is ahead by how much, and which others wait until it is repaired."""
    ahead = timedelta(0) if agent.last_entry_at is None else agent.last_entry_at - now
    return {
        "agentId": agent.pk,
        "lastEntryAt": format_instant(now + ahead),
        "aheadS": ahead.total_seconds(),
        "waiting": find_waiting(agent.pk, now),
    }

"""`manage.py clocks [--repair AGENT --reason R]`."""

import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from foundation.commands import AUTHOR, JsonCommand
from foundation.kernel.times import LARGEST_SKEW, format_instant
from ledger.clocks import clocks_agree, find_ahead, find_waiting, read_clocks, repair_clock


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
        ahead = {agent.id: agent.last_entry_at for agent in find_ahead(reading.database) if agent.last_entry_at}
        result = {
            "database": format_instant(reading.database),
            "process": format_instant(reading.after),
            "databaseAheadS": reading.skew.total_seconds(),
            "agents": [
                {
                    "agentId": agent_id,
                    "lastEntryAt": format_instant(at),
                    "aheadS": (at - reading.database).total_seconds(),
                    "waiting": find_waiting(agent_id, reading.database),
                }
                for agent_id, at in ahead.items()
            ],
        }
        is_trusted = clocks_agree(reading)
        if ahead or not is_trusted:
            self.stdout.write(json.dumps(result, ensure_ascii=False))
            refused = sorted({*ahead, *(one for agent in result["agents"] for one in agent["waiting"])})
            whose = ", ".join(refused) if is_trusted else "all agents on this machine"
            raise CommandError(f"Payments of {whose} are answered with 503.")
        return result

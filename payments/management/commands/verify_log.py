"""`manage.py verify_log [--agent ID]`."""

import json
import time
from typing import Any

from django.core.management.base import CommandError, CommandParser

from foundation.commands import JsonCommand
from foundation.groups import snapshot, within_group_of
from payments.reconciling.spread_rows import find_misplaced, find_repeated
from payments.reconciling.verification import Progress, verify_agent
from policy.models import Agent

_PROGRESS_EVERY_S = 2


class Command(JsonCommand):
    help = (
        "Check every log entry (hash, signature, chain, running total), every payment behind it and every balance. "
        "Prints each problem, and ends with status 1 if there is any."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", metavar="ID", help="Check this agent only.")

    def perform(self, **options: Any) -> dict[str, Any]:
        agents = Agent.objects.order_by("id").values_list("id", flat=True)
        if options["agent"] is not None:
            agents = agents.filter(pk=options["agent"])
            if not agents:
                raise CommandError(f"There is no agent {options['agent']}.")
        entries, reported_at = 0, time.monotonic()
        problems = [] if options["agent"] is not None else [*find_misplaced(), *find_repeated()]
        for number, agent_id in enumerate(agents, start=1):
            progress = Progress()
            with within_group_of(agent_id), snapshot():
                problems += list(verify_agent(agent_id, progress))
            entries += progress.entries
            if time.monotonic() - reported_at > _PROGRESS_EVERY_S:
                reported_at = time.monotonic()
                self.stderr.write(f"{number} of {len(agents)} agents, {entries} entries ...")
        result = {
            "agents": len(agents),
            "entries": entries,
            "problems": [
                {"agentId": found.agent_id, "entryId": found.entry_id, "problem": found.problem} for found in problems
            ],
        }
        if problems:
            for found in problems:
                self.stderr.write(f"{found.agent_id} {found.entry_id or ''}: {found.problem}")
            self.stdout.write(json.dumps(result, ensure_ascii=False))
            raise CommandError(f"{len(problems)} problems found.")
        return result

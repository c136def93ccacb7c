"""One run: the scenarios one after the other, each judged when it is over; then the controls."""

import io
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from django.core.management import CommandError, call_command
from django.db import connection

from foundation.groups import in_each_group
from tests.overspend.controls import CONTROLS
from tests.overspend.evidence import Counted, Entry, Evidence, Paid
from tests.overspend.judging import Verdict, judge
from tests.overspend.names import TITLES
from tests.overspend.rows import read_arrived, read_rows
from tests.overspend.scenarios import SCENARIOS
from tests.overspend.stage import Stage
from tests.overspend.table import Result, Table
from tests.overspend.world import World, make_world
from tests.support.localnets import EVM


def run(seed: int, names: Sequence[str], table: Table, folder: Path, *, is_short: bool) -> None:
    """Play scenarios, and controls if none was left out, and enter what came of them."""
    table.say("starting ten web processes")
    with make_world(seed, folder, is_short=is_short) as world:
        for name in names:
            began = time.monotonic()
            table.say(f"{name}: {TITLES[name]} ...")
            stage, verdict = _play(world, SCENARIOS[name])
            table.add(Result(name, stage.processes, time.monotonic() - began, verdict))
        table.say("verify_log ...")
        _verify_log(table)
        if len(names) == len(SCENARIOS):
            for name, control in CONTROLS.items():
                table.add_control(name, control.leak, control.kind, _play(world, control.play)[1])


def _verify_log(table: Table) -> None:
    """Have the product check its own log, too."""
    output = io.StringIO()
    try:
        call_command("verify_log", stdout=output, stderr=output)
    except CommandError as error:
        table.fail(f"verify_log: {error}\n{output.getvalue()}")


def _play(world: World, play: Callable[[Stage], None]) -> tuple[Stage, Verdict]:
    stage = Stage(world)
    play(stage)
    return stage, judge(_collect(stage))


def _read(agents: Sequence[str]) -> tuple[list[Entry], list[Paid], list[Counted]]:
    """Read the rows of agents, wherever they are."""
    entries: list[Entry] = []
    payments: list[Paid] = []
    counted: list[Counted] = []

    def read() -> None:
        connection.ensure_connection()
        of_group = read_rows(connection.connection, agents)
        entries.extend(of_group[0])
        payments.extend(of_group[1])
        counted.extend(of_group[2])

    in_each_group(read)
    return entries, payments, counted


def _collect(stage: Stage) -> Evidence:
    """Let all that is under way arrive, then read the rows and ask the chain."""
    EVM.drain()
    accounts = [payer.account for payer in stage.payers]
    entries, payments, counted = _read([account.agent for account in accounts])
    services = {payer.service.id: payer.service for payer in stage.payers}
    arrived = read_arrived(list(services.values()))
    return Evidence(accounts, stage.told, entries, payments, arrived, stage.seen, counted)

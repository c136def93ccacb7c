"""Scenarios in which something dies in mid-spend."""

import itertools

from django.db import connection

from tests.overspend.answers import BROKEN, UNAVAILABLE
from tests.overspend.stage import Payer, Stage


def web_servers_killed(stage: Stage) -> None:
    """Kill a web server with its workers in each of several storms, start it again, retry with the same keys."""
    rounds, each = stage.world.size(6, 1), stage.world.size(50, 40)
    payers = _make_payers(stage, rounds * each)
    fleet = stage.world.fleet
    for _ in range(rounds):
        storm = stage.storm([payer.shot() for payer in payers for _ in range(each)])
        list(itertools.islice(storm, each // 4))
        victim = stage.chance.randrange(len(fleet.urls))
        fleet.kill(victim)
        list(storm)
        fleet.start(victim)
    stage.expect(any(told.status == BROKEN for told in stage.told), "No connection broke: nothing was killed in time.")
    stage.insist()
    stage.repeat(stage.world.size(100, 20))


def database_killed(stage: Stage) -> None:
    """Kill PostgreSQL with all its processes in each of several storms, and start it again."""
    rounds, each = stage.world.size(4, 1), stage.world.size(50, 30)
    payers = _make_payers(stage, rounds * each)
    installation = stage.world.installation
    for _ in range(rounds):
        storm = stage.storm([payer.shot() for payer in payers for _ in range(each)])
        list(itertools.islice(storm, each // 4))
        installation.kill("database")
        installation.start("database")
        list(storm)
    # This process has lost its connection, too.
    connection.close()
    is_noticed = any(told.status in (BROKEN, UNAVAILABLE) for told in stage.told)
    stage.expect(is_noticed, "Nobody noticed that the database was away.")
    stage.insist()
    stage.repeat(stage.world.size(100, 20))


def _make_payers(stage: Stage, wishes: int) -> list[Payer]:
    """Make agents of whose many wishes, one unit each, half fit."""
    return [stage.payer(day=f"{wishes // 2}", wanted=f"{wishes // 2}") for _ in range(stage.world.size(4, 2))]

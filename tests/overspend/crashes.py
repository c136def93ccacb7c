"""Scenarios in which something dies in mid-spend."""

import itertools
from collections.abc import Iterator

from django.db import connection

from tests.overspend.answers import BROKEN, UNAVAILABLE
from tests.overspend.stage import Payer, Stage
from tests.support.storms import Answer

# A storm may be over before what it needs is dead: then there are more of them.
_MOST_MORE = 5
_HIT = (BROKEN, UNAVAILABLE)


def web_servers_killed(stage: Stage) -> None:
    """Kill a web server with its workers in each of several storms, start it again, retry with the same keys."""
    rounds, each = stage.world.size(6, 1), stage.world.size(50, 40)
    payers = _make_payers(stage, rounds * each)
    fleet = stage.world.fleet
    for storm in _storms(stage, payers, rounds, each):
        victim = stage.chance.choice(fleet.names())
        fleet.kill(victim)
        list(storm)
        fleet.again(victim)
        fleet.wait_for(victim)
    _retry(stage)


def database_killed(stage: Stage) -> None:
    """Kill PostgreSQL with all its processes in each of several storms, and start it again."""
    rounds, each = stage.world.size(4, 1), stage.world.size(50, 60)
    payers = _make_payers(stage, rounds * each)
    installation = stage.world.installation
    for storm in _storms(stage, payers, rounds, each):
        installation.kill("database")
        installation.start("database")
        list(storm)
    # This process has lost its connection, too.
    connection.close()
    _retry(stage)


def _make_payers(stage: Stage, wishes: int) -> list[Payer]:
    """Make agents of whose many wishes, one unit each, half fit."""
    return [stage.payer(day=f"{wishes // 2}", wanted=f"{wishes // 2}") for _ in range(stage.world.size(4, 2))]


def _storms(stage: Stage, payers: list[Payer], rounds: int, each: int) -> Iterator[Iterator[Answer]]:
    """Begin so many storms, one after the other, and more until one was hit; each when it has had some answers."""
    for number in range(rounds + _MOST_MORE):
        if number >= rounds and _is_hit(stage):
            return
        storm = stage.storm([payer.shot() for payer in payers for _ in range(each)])
        list(itertools.islice(storm, each // 4))
        yield storm


def _retry(stage: Stage) -> None:
    stage.expect(_is_hit(stage), "Every storm was over before something was killed.")
    stage.insist()
    stage.repeat(stage.world.size(100, 20))


def _is_hit(stage: Stage) -> bool:
    return any(told.status in _HIT for told in stage.told)

"""Where the groups of agents are, and the sessions with their nodes, as this process knows them."""

import itertools
import threading
import time
from collections.abc import Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from foundation.database_sessions import close_if_ended
from foundation.groups.here import WHOLE, Group, GroupAway, here
from foundation.groups.joins import join_by_group
from foundation.groups.refusing import refuse_while_away
from foundation.groups.together import commit_together

# Where groups are is asked anew after this, and believed for no longer than that while the coordinator is away.
_ASK_AFTER_S, BELIEVED_S = 2.0, 10.0
# A node that did not answer is asked again after this.
_LEAVE_ALONE_S = 10.0
_CONNECT_S = 2
# Sessions with a group that a process keeps while nobody uses them.
_MOST_IDLE = 4
_MOST_REMEMBERED = 100_000
_IS_DISTRIBUTED = "SELECT to_regclass('distributed_place') IS NOT NULL"
_TABLES = "SELECT logicalrelid::regclass::text, partmethod = 'h' FROM pg_dist_partition"
_FIND_PLACES = "SELECT number, host, port FROM distributed_place ORDER BY place"
_FIND_GROUPS = "SELECT agent_id, agent_group FROM distributed_agent WHERE agent_id = ANY(%s)"


class Places:
    """Where the groups are, as this process knows it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.tables: set[str] = set()
        self.elsewhere: set[str] = set()
        self._is_distributed: bool | None = None
        self._places: dict[Group, tuple[str, int] | None] = {}
        self._asked_at = float("-inf")
        self._away_until: dict[tuple[str, int], float] = {}
        self._idle: dict[Group, list[BaseDatabaseWrapper]] = {}
        self._group_of: dict[str, Group] = {}
        self._refuse = refuse_while_away(self._is_any_away, lambda: self.tables)

    def groups(self) -> Sequence[Group]:
        """List all groups, in one order."""
        return tuple(self._look()) if self.are_there() else (WHOLE,)

    def of(self, agent_id: str) -> Group | None:
        """Find the group of an agent; None: there is no such agent. An agent stays in its group."""
        self.learn([agent_id])
        return self.known(agent_id)

    def known(self, agent_id: str) -> Group | None:
        """Tell the group of an agent that was learnt."""
        return self._group_of.get(agent_id) if self.are_there() else WHOLE

    def learn(self, agent_ids: Sequence[str]) -> None:
        """Find the groups of agents that are not known yet."""
        unknown = [one for one in agent_ids if one not in self._group_of] if self.are_there() else []
        if unknown:
            if len(self._group_of) >= _MOST_REMEMBERED:
                self._group_of.clear()
            self._group_of |= {agent_id: Group(number) for agent_id, number in _fetch(_FIND_GROUPS, [unknown])}

    def address_of(self, group: Group) -> str:
        """Say where a group is, for people."""
        place = self._places.get(group)
        return "that was taken out" if place is None else "{}:{}".format(*place)

    def take(self, group: Group) -> BaseDatabaseWrapper:
        """Take a session with a group that no other thread uses. Raises GroupAway."""
        place = self._look().get(group)
        if place is None or self._away_until.get(place, 0) > time.monotonic():
            raise GroupAway(f"The node of {group} was taken out, or did not answer a moment ago.")
        with self._lock:
            idle = self._idle.setdefault(group, [])
            while idle:
                session = idle.pop()
                if (session.settings_dict["HOST"], session.settings_dict["PORT"]) == place:
                    close_if_ended(session)
                    return session
                session.close()
        return _open(group, *place)

    def lose(self, group: Group) -> None:
        """Leave the node of a group alone for a while: whoever waits for it does nothing else meanwhile."""
        if (place := self._places.get(group)) is None:
            return
        with self._lock:
            self._away_until[place] = time.monotonic() + _LEAVE_ALONE_S
            idle = [self._idle.pop(one, []) for one, its_place in self._places.items() if its_place == place]
        for session in itertools.chain(*idle):
            session.close()

    def _is_any_away(self) -> bool:
        now = time.monotonic()
        return any(until > now for until in [*self._away_until.values()])

    def give_back(self, group: Group, session: BaseDatabaseWrapper) -> None:
        """Let others use a session, or close it if it failed or there are enough."""
        session.close_if_unusable_or_obsolete()
        with self._lock:
            idle = self._idle.setdefault(group, [])
            if len(idle) < _MOST_IDLE:
                idle.append(session)
                return
        session.close()

    def forget(self) -> None:
        """Ask anew for everything: a group was moved, or another database is used."""
        with self._lock:
            self._is_distributed, self._asked_at = None, float("-inf")
            self._away_until.clear()
            self._group_of.clear()
            sessions, self._idle = [one for idle in self._idle.values() for one in idle], {}
        for session in sessions:
            session.close()

    def are_there(self) -> bool:
        if self._is_distributed is None:
            self._is_distributed = bool(_fetch(_IS_DISTRIBUTED, [])[0][0])
            if self._is_distributed:
                told = _fetch(_TABLES, [])
                self.tables = {name for name, is_of_groups in told if is_of_groups}
                self.elsewhere = {name for name, is_of_groups in told if not is_of_groups}
                # A row's key alone does not say what else is in it: the group is part of the key.
                connection.features.__class__.allows_group_by_selected_pks = False
                join_by_group(self.tables, lambda: here.group == WHOLE and self.are_there())
        return self._is_distributed

    def _look(self) -> dict[Group, tuple[str, int] | None]:
        """Ask where the groups are if it is time; while nobody can tell, what was known holds for `BELIEVED_S`."""
        if self._refuse not in (wrappers := connections[DEFAULT_DB_ALIAS].execute_wrappers):
            wrappers.append(self._refuse)  # each thread has a session of its own
        age_s = time.monotonic() - self._asked_at
        if age_s < _ASK_AFTER_S:
            return self._places
        asked_at = time.monotonic()
        if not connection.in_atomic_block:
            close_if_ended(connections[DEFAULT_DB_ALIAS])
        try:
            rows = _fetch(_FIND_PLACES, [])
        except OperationalError as error:
            if age_s < BELIEVED_S:
                return self._places
            raise GroupAway("Where the groups are is not known now.") from error
        places = {Group(number): None if host is None else (host, port) for number, host, port in rows}
        with self._lock:
            self._places, self._asked_at = places, asked_at
        return places


places = Places()


def schema_of(group: Group) -> str:
    """Name the schema that has a group's part of each table, on its node."""
    return f"group_{group.number}"


def _open(group: Group, host: str, port: int) -> BaseDatabaseWrapper:
    """Make a session with the node of a group; it connects when it is used."""
    session = connections.create_connection(DEFAULT_DB_ALIAS)
    options = dict(session.settings_dict["OPTIONS"])
    options["options"] = f"{options.get('options', '')} -c search_path={schema_of(group)},public".strip()
    options["connect_timeout"] = _CONNECT_S
    session.settings_dict = {**session.settings_dict, "HOST": host, "PORT": port, "OPTIONS": options}
    session.execute_wrappers.append(commit_together(lambda: places.elsewhere))
    session.inc_thread_sharing()
    return session


def _fetch(statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows

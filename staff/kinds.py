"""The kinds of changes that people make, whichever door they come by: the console, or `manage.py change`.

An app registers each with what makes it. The console shows a change first, and has a second person confirm it where one
is needed (`second_person`). Commands need no second person: who can run them holds the keys anyway. So they need no
permission either. Both call `make`; a second person's confirmation makes it within its own transaction.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from foundation.groups import WHOLE, Group, group_of, within
from foundation.kernel.errors import OperationRefused


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a kind: what it is, and how its JSON is read from what somebody writes in a shell.

    `read` raises ValueError, or OperationRefused with a sentence of its own.
    """

    says: str
    read: Callable[[str], Any] = str
    is_needed: bool = True


def group_of_agent(arguments: Mapping[str, Any]) -> Group:
    """Name the group of the agent that a change is about, which `agent` names; `WHOLE`: it is about none."""
    agent = arguments.get("agent")
    return WHOLE if agent is None else group_of(agent, below=arguments.get("parent"))


def _moment(text: str) -> str:
    return datetime.fromisoformat(text).isoformat()


# Of what is started again.
STOP = Argument("When the stop began that was looked at; another one is not ended.", _moment, is_needed=False)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of change.

    `perform` makes it: called with its arguments, its author and reason; it returns what was done, in a sentence
    without secrets, or raises OperationRefused. `permission`: who may ask in the console, and who may confirm. `check`:
    asks first, under no lock, what takes long, such as the nodes of a chain; it raises OperationRefused.
    `is_rehearsed`: before anybody is asked to confirm it, it is made and taken back, so that nobody is asked for what
    would be refused. `takes`: its arguments; None: it is made in the console alone. `expires_at`: when what it is about
    is over by itself, so that nobody is asked for longer; None: it never is.
    `group`: whose rows it changes, entered before the transaction that it is made in.
    """

    name: str
    title: str
    permission: str
    perform: Callable[[Mapping[str, Any], str, str], str]
    is_rehearsed: bool = False
    check: Callable[[Mapping[str, Any]], None] = lambda _arguments: None
    takes: Mapping[str, Argument] | None = None
    expires_at: Callable[[Mapping[str, Any]], datetime | None] = lambda _arguments: None
    group: Callable[[Mapping[str, Any]], Group] = group_of_agent


_kinds: dict[str, Kind] = {}


def register(*kinds: Kind) -> None:
    """Make kinds of changes known; apps do so when they are ready."""
    _kinds.update({kind.name: kind for kind in kinds})


def find_kind(name: str) -> Kind:
    """Find a kind of change. One that only another release knows is never made; an Administrator may refuse it."""
    return _kinds.get(name) or Kind(name, f"{name}, unknown to this release", "auth.change_user", _refuse_unknown)


def kinds_of_a_shell() -> dict[str, Kind]:
    """Give the kinds that a command may make, by name."""
    return {name: kind for name, kind in sorted(_kinds.items()) if kind.takes is not None}


def make(name: str, arguments: Mapping[str, Any], *, by: str, reason: str) -> str:
    """Make a change at once; returns what was done, in a sentence. Whoever calls this has judged that one is enough.

    Raises:
        OperationRefused: the operation refuses it.
    """
    kind = find_kind(name)
    kind.check(arguments)
    with within(kind.group(arguments)):
        return kind.perform(arguments, by, reason)


def _refuse_unknown(_arguments: Mapping[str, Any], _by: str, _reason: str) -> str:
    raise OperationRefused("This release does not know this kind of change: refuse it, and ask again.")

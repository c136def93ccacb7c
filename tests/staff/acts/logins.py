"""Logins that Dora begins and finishes later, and the sessions that begin with one."""

import random

from tests.staff.acts.consoles import Begun, MemoryConsole
from tests.staff.acts.people import DORA, People


class Logins:
    """What she has begun of every account whose password and second factor are hers."""

    def __init__(self, console: MemoryConsole, people: People, chance: random.Random) -> None:
        self._console, self._people, self._chance = console, people, chance
        self._logins: list[Begun] = []
        self._sessions: list[Begun] = []

    def go_on(self) -> None:
        """Let her enter the codes that she was asked for, mostly where it is her last chance, and begin new logins."""
        self._logins = [login for login in self._logins if not self._console.is_late(login)]
        for login in list(self._logins):
            is_last = login.ends != self._console.accounts[login.account].ends
            if self._chance.random() < (0.8 if is_last else 0.05):
                self._logins.remove(login)
                session = self._console.finish_login(login)
                self._sessions += [session] if session else []
        for name in sorted(self._people.accounts.keys() - self.waiting()):
            account = self._people.accounts[name]
            can_begin = DORA in account.knows_password and account.has_factor == DORA
            if can_begin and self._chance.random() < 0.5 and (begun := self._console.begin_login(name)):
                self._logins.append(begun)

    def waiting(self) -> set[str]:
        """Name the accounts where a code of hers is waited for."""
        return {login.account for login in self._logins}

    def is_in(self, name: str) -> bool:
        """Tell whether a session that began so goes on."""
        return any(session.account == name and self._console.goes_on(session) for session in self._sessions)

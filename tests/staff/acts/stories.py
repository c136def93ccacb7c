"""Random sequences of what staff do: one dishonest person, who uses every account that she could use, and others."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import combinations, count
from typing import TypeVar

from tests.staff.acts.consoles import ADMINISTRATOR, FINANCE, Link, MemoryConsole
from tests.staff.acts.logins import Logins
from tests.staff.acts.people import DORA, People, Seen, Truth

One = TypeVar("One")
FINANCE_ALONE, OFFICE_ALONE = frozenset({FINANCE}), frozenset({ADMINISTRATOR})
BOTH = FINANCE_ALONE | OFFICE_ALONE
_ROLES = (FINANCE_ALONE, FINANCE_ALONE, FINANCE_ALONE, OFFICE_ALONE, BOTH)
_MOST_ACCOUNTS = 9
EVERYTHING = ("money", "change", "account", "hands")
# How long nothing happens between two steps, in minutes.
PAUSES: Sequence[int] = (0,) * 16 + (1, 5, 20, 45, 90, 90, 60 * 25, 60 * 80)


@dataclass(frozen=True)
class Setting:
    """How an installation is set up, and how those who are honest are."""

    has_mail: bool
    has_factors: bool
    has_single_sign_on: bool
    is_hurried: bool
    is_dora_first: bool
    begins_without_four_eyes: bool
    begins_in_her_hand: bool


class Broken(AssertionError):
    """One person did what takes two: `what`."""

    def __init__(self, what: str, told: Sequence[str]) -> None:
        super().__init__("\n".join([what, *told]))
        self.what = what


class Story:
    """One sequence, from its seed: it raises `Broken` as soon as one person has done alone what takes two.

    `counts`: what is looked at: "money" that moves, a "change" of an account, an "account" that is opened, and "hands":
    two accounts that Dora could use, and that the rule takes for independent.
    """

    def __init__(self, seed: int, console: MemoryConsole, counts: Sequence[str] = EVERYTHING) -> None:
        self.chance = random.Random(seed)
        self.setting = Setting(*(self.chance.random() < 0.5 for _ in range(7)))
        self.console, self.counts = console, counts
        self.pauses = PAUSES
        self.people = People(self.setting.has_single_sign_on)
        self.logins = Logins(console, self.people, self.chance)
        self.told = [f"seed {seed}: {self.setting}"]
        self.by_two = 0
        self._askers: dict[int, str] = {}
        self._invented: set[str] = set()
        self._numbers = count()
        self._ever_decided: set[str] = set()
        console.has_mail, console.four_eyes = self.setting.has_mail, not self.setting.begins_without_four_eyes
        self._begin()

    def play(self, steps: int) -> None:
        for step in range(steps):
            if step == steps // 4:
                self.console.four_eyes = True
            self.console.advance(timedelta(minutes=self.pick(self.pauses)))
            if self.chance.random() < 0.02:
                self._command(f"helper{step}", OFFICE_ALONE)
            elif self.chance.random() < 0.6:
                self._turn_of(DORA)
            else:
                others = sorted({one.owner for one in self.people.accounts.values()} - {DORA})
                self._turn_of(self.pick(others or [DORA]))
            self._check_hands()

    def pick(self, choices: Sequence[One]) -> One:
        return choices[self.chance.randrange(len(choices))]

    def tell(self, words: str) -> None:
        self.told.append(words)

    def _begin(self) -> None:
        if self.setting.is_dora_first:
            self._command(DORA, self.pick([OFFICE_ALONE, BOTH]))
            return
        self._command("hana", self.pick([OFFICE_ALONE, BOTH]))
        own = self.setting
        is_in_hand = own.begins_in_her_hand and own.begins_without_four_eyes and own.has_factors and own.has_mail
        for name in (DORA, "fay", "gus")[: 3 if is_in_hand else self.chance.randrange(4)]:
            self._command(name, BOTH if is_in_hand else self.pick(_ROLES))
        for name in ("fay", "gus") if is_in_hand else ():
            self._take(name)

    def _take(self, name: str) -> None:
        """Let her make somebody's first link while one is enough, open it herself, and set up her own factor."""
        link = self.console.link(name, DORA)
        assert isinstance(link, Link)
        self._open(Seen(link, {DORA}, takes_two=False), DORA)
        self._sign_in(DORA, name)

    def _command(self, name: str, roles: frozenset[str]) -> None:
        self.console.make_by_command(name, roles)
        self.people.accounts[name] = Truth(name, {name})
        self._note_deciders()
        self.tell(f"a command makes {name}, {sorted(roles)}")

    def _note_deciders(self) -> None:
        self._ever_decided |= {name for name in self.console.accounts if self.console.decides(name)}

    # --- A turn -------------------------------------------------------------------------------------------------------
    def _turn_of(self, person: str) -> None:
        """Let somebody open a link, or do something with an account that they could use."""
        self._look_at_halves(person)
        if person == DORA:
            self.logins.go_on()
        links = [seen for seen in self.people.links if seen.is_open_to(person)]
        if links and self.chance.random() < 0.4:
            self._open(self.pick(links), person)
            return
        usable = [name for name in self.people.accounts if self._can_use(person, name)]
        if person != DORA:
            usable = [name for name in usable if self.people.accounts[name].owner == person]
        if not usable:
            return
        by = self.pick(usable)
        self._sign_in(person, by)
        acts = [self._decide] * 4
        if FINANCE in self.console.accounts[by].roles:
            acts += [self._ask_for_money] * 2
        if self.console.decides(by):
            acts += [self._make, self._link, self._link, self._send, self._change, self._change]
            if person == DORA and len(self.logins.waiting()) > 1:
                acts += [self._send_where_logins_wait] * 8
        self.pick(acts)(person, by)

    def _sign_in(self, person: str, name: str) -> None:
        account = self.people.accounts[name]
        if not self.people.can_sign_in(person, name) or not self.console.accounts[name].is_active:
            return
        sets_up = self.setting.has_factors and not account.has_factor
        account.has_factor = person if sets_up else account.has_factor
        account.used[person] = self.console.now
        self.console.sign_in(name, sets_up_factor=sets_up)

    def _can_use(self, person: str, name: str) -> bool:
        return self.people.can_use(person, name, self.console.now) or (person == DORA and self.logins.is_in(name))

    def _make(self, person: str, by: str) -> None:
        if len(self.people.accounts) >= _MOST_ACCOUNTS:
            return
        name, roles = f"new{next(self._numbers)}", self.pick(_ROLES)
        if person == DORA and self.chance.random() < 0.5:
            self._invented.add(name)
        self._ask("make", name, person, by, roles)

    def _change(self, person: str, by: str) -> None:
        what = self.pick(["change_roles", "reset", "activate", "deactivate"])
        about = self._other(person, by)
        if person == DORA or what != "deactivate":
            self._ask(what, about, person, by, self.pick(_ROLES) if what == "change_roles" else frozenset())

    def _ask(self, what: str, about: str, person: str, by: str, roles: frozenset[str]) -> None:
        outcome = self.console.change(what, about, by, roles)
        self.tell(f"{person} as {by}: {what} {about} {sorted(roles)}: {outcome}")
        if outcome == "waits":
            self._askers[len(self.console.requests) - 1] = person
        elif outcome == "done":
            self._check_alone(person, by, what)
            self._follow(what, about)

    def _check_alone(self, person: str, by: str, what: str) -> None:
        had_colleagues = bool(self._ever_decided - {by})
        if person == DORA and what != "deactivate" and self.console.four_eyes and had_colleagues:
            self._break("change")

    def _check_hands(self) -> None:
        hers = [name for name in self.people.accounts if self.logins.is_in(name) or self.people.can_sign_in(DORA, name)]
        if any(self.console.are_independent(*pair) for pair in combinations(hers, 2)):
            self._break("hands")

    def _link(self, person: str, by: str) -> None:
        about = self._other(person, by)
        made = self.console.link(about, by)
        self.tell(f"{person} as {by}: link for {about}: {made}")
        if made == "waits":
            self._askers[len(self.console.requests) - 1] = person
        elif isinstance(made, Link):
            takes_two = self.console.four_eyes and bool(self._ever_decided - {by})
            addressees = {person} if self._keeps(person) else {person, self.people.accounts[about].owner}
            self.people.links.append(Seen(made, addressees, takes_two=takes_two))

    def _send_where_logins_wait(self, person: str, by: str) -> None:
        """Let her send links for accounts that she could use, and still hopes to: nobody takes them to be hers then."""
        for name in sorted(self.logins.waiting() - {by}):
            self._send(person, by, name)

    def _send(self, person: str, by: str, about: str = "") -> None:
        about = about or self._other(person, by)
        made = self.console.send(about, by)
        self.tell(f"{person} as {by}: sends {about} a link: {made}")
        if isinstance(made, Link):
            self.people.accounts[about].knows_password.clear()
            self.people.links.append(Seen(made, {self.people.accounts[about].owner}))

    def _other(self, person: str, by: str) -> str:
        """Choose an account: seldom the one that is used; honest people do nothing for somebody whom nobody knows."""
        others = [
            name for name in self.people.accounts if name != by and (person == DORA or name not in self._invented)
        ]
        return self.pick(others) if others and self.chance.random() < 0.95 else by

    def _keeps(self, person: str) -> bool:
        return person == DORA and self.chance.random() < 0.7

    def _ask_for_money(self, person: str, by: str) -> None:
        outcome = self.console.ask_for_money(by)
        self.tell(f"{person} as {by}: money: {outcome}")
        if outcome == "waits":
            self._askers[len(self.console.requests) - 1] = person

    def _decide(self, person: str, by: str) -> None:
        waiting = [number for number, one in enumerate(self.console.requests) if one.state == "waiting"][-6:]
        waiting = [number for number in waiting if person == DORA or self._seems_right(number)]
        if not waiting:
            return
        number = self.pick(waiting)
        request = self.console.requests[number]
        outcome = self.console.confirm(number, by)
        self.tell(f"{person} as {by}: confirms {request.what} {request.about}, asked by {request.by}: {outcome}")
        if outcome != "done":
            return
        if person == DORA == self._askers[number]:
            self._break("money" if request.what == "money" else "change")
        self.by_two += 1
        if request.what != "money":
            self._follow(request.what, request.about)
        if request.what == "link":
            self.people.links.append(Seen(None, set(), set(), number))
            self._hand_over(self.people.links[-1], person, self._askers[number])

    def _hand_over(self, seen: Seen, confirmer: str, asker: str) -> None:
        """Let both look at their half; who is honest gives it to the owner, whom they know."""
        assert seen.number is not None
        assert seen.code_holders is not None
        owner = self.people.accounts[self.console.requests[seen.number].about].owner
        seen.addressees |= {confirmer} if self._keeps(confirmer) else {confirmer, owner}
        seen.code_holders |= {asker} if self._keeps(asker) else {asker, owner}

    def _seems_right(self, number: int) -> bool:
        """Tell whether an honest person confirms this: never for somebody invented; hurried, everything else."""
        request = self.console.requests[number]
        if request.about in self._invented:
            return False
        if self.setting.is_hurried or request.what in ("money", "make"):
            return True
        owner = self.people.accounts[request.about].owner
        needs_it = not self.people.can_sign_in(owner, request.about)
        return needs_it if request.what in ("link", "reset") else self.chance.random() < 0.5

    def _look_at_halves(self, person: str) -> None:
        """Let somebody look at the pages of requests with every account that they could use."""
        for seen in self.people.links:
            if seen.number is None or seen.code_holders is None or person != DORA:
                continue
            request = self.console.requests[seen.number]
            if self._can_use(person, request.by):
                seen.code_holders.add(person)
            if self._can_use(person, request.decided_by):
                seen.addressees.add(person)

    def _open(self, seen: Seen, person: str) -> None:
        link = seen.link if seen.number is None else self.console.link_of(seen.number)
        outcome = self.console.open(link) if link else "refused"
        if link is None or outcome != "done":
            return
        self.tell(f"{person} opens the link for {link.account}")
        account = self.people.accounts[link.account]
        account.knows_password = {person}
        if person == DORA != account.owner and seen.takes_two:
            self._break("account")

    def _follow(self, what: str, about: str) -> None:
        """Let what was done become true of the account."""
        self._note_deciders()
        if what == "make":
            self.people.accounts[about] = Truth(DORA if about in self._invented else about)
        elif what == "reset":
            self.people.accounts[about].has_factor = ""
        elif what == "link":
            self.people.accounts[about].knows_password.clear()

    def _break(self, what: str) -> None:
        if what in self.counts:
            raise Broken(what, self.told)

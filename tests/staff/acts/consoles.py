"""What the console does with accounts, in memory: the operations of `staff` around a rule, and nothing else."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

from staff.hands import LINK, MADE, SENT, Act
from tests.staff.acts.rules import Rule, Staff

ADMINISTRATOR, FINANCE = "Administrator", "Finance"
COMMAND = "command line"
_REQUEST_LASTS, _LINK_LASTS = timedelta(days=3), timedelta(days=1)
_LOGIN_LASTS, _SESSION_LASTS = timedelta(minutes=5), timedelta(hours=12)
Outcome = Literal["done", "waits", "refused"]


@dataclass
class Account:
    """An account, and what changes whenever no link, or no session, of before opens it any more."""

    roles: frozenset[str]
    is_active: bool = True
    has_factor: bool = False
    has_password: bool = False
    signed_in: int = 0
    version: int = 0
    ends: int = 0


@dataclass
class Request:
    """A change that waits for a second person; `what` is "money", or the change of the account `about`."""

    what: str
    about: str
    by: str
    at: datetime
    roles: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    state: str = "waiting"
    decided_by: str = ""
    decided_at: datetime | None = None
    turn: int = 0  # of those that were decided


@dataclass(frozen=True)
class Link:
    """A link: whole, or that of a request in two halves; and the account as it was when the link was made."""

    account: str
    at: datetime
    state: tuple[int, int]
    request: int | None = None


@dataclass(frozen=True)
class Begun:
    """A login that waits for its code, or a session, and how often those of the account had ended when it began."""

    account: str
    at: datetime
    ends: int


@dataclass
class MemoryConsole:
    """The console, as far as it is about accounts and second persons."""

    rule: Rule
    has_mail: bool = True
    four_eyes: bool = True
    now: datetime = datetime(2026, 11, 2, 8, tzinfo=UTC)
    accounts: dict[str, Account] = field(default_factory=dict)
    acts: list[Act] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def decides(self, name: str) -> bool:
        return ADMINISTRATOR in self.accounts[name].roles

    def advance(self, by: timedelta) -> None:
        self.now += by

    def make_by_command(self, name: str, roles: frozenset[str]) -> None:
        """Make an account with a password, which whoever runs the installation hands to its owner."""
        self._make(name, roles, COMMAND, "")
        self.accounts[name].has_password = True

    def sign_in(self, name: str, *, sets_up_factor: bool) -> None:
        account = self.accounts[name]
        account.signed_in += 1
        account.has_factor |= sets_up_factor

    def begin_login(self, name: str) -> Begun | None:
        """Enter the password of an account; None: no code is asked for then."""
        account = self.accounts[name]
        begins = account.is_active and account.has_password and account.has_factor
        return Begun(name, self.now, account.ends) if begins else None

    def finish_login(self, login: Begun) -> Begun | None:
        """Enter the code behind the password; returns the session, if one begins."""
        account = self.accounts[login.account]
        has_ended = login.ends != account.ends and not self.rule.logins_outlast_links
        if self.is_late(login) or has_ended or not account.is_active or not account.has_factor:
            return None
        self.sign_in(login.account, sets_up_factor=False)
        return Begun(login.account, self.now, account.ends)

    def is_late(self, login: Begun) -> bool:
        return self.now - login.at > _LOGIN_LASTS

    def goes_on(self, session: Begun) -> bool:
        return session.ends == self.accounts[session.account].ends and self.now - session.at < _SESSION_LASTS

    def change(self, what: str, about: str, by: str, roles: frozenset[str] = frozenset()) -> Outcome:
        """Ask for a change of an account: made at once by who acts alone, else by two."""
        if not self._may(by, "staff") or self.accounts[by].roles.isdisjoint({ADMINISTRATOR}):
            return "refused"
        before = self.accounts[about].roles if what == "change_roles" else frozenset()
        request = Request(what, about, by, self.now, roles, before)
        if what == "deactivate":
            return self._perform(request, "")
        verdict = "alone" if not self.four_eyes else self.rule.takes(self._staff(), by, about)
        if verdict == "alone" and self.four_eyes and ADMINISTRATOR in roles and not self.rule.gives_office_alone:
            return "refused"
        if verdict == "alone":
            return self._perform(request, "")
        if verdict == "refused" or self._is_asked(request) or not self._would_be_done(request):
            return "refused"
        self.requests.append(request)
        return "waits"

    def link(self, about: str, by: str) -> Link | Outcome:
        """Make a link: a whole one for who acts alone, else one in two halves once a second person confirms it."""
        if not self.rule.links_take_two or not self.four_eyes or self.rule.acts_alone(self._staff(), by):
            return self._link_alone(about, by)
        return self.change("link", about, by)

    def send(self, about: str, by: str) -> Link | Outcome:
        """Send a link to the address of an account."""
        may = self.decides(by) and self.has_mail and self._may(by, "staff") and self._is_open_to(about, by)
        if not may or (self.four_eyes and not self.rule.may_send(self._staff(), by, about)):
            return "refused"
        self._renew(about)
        self._note(SENT, about, by, "")
        return Link(about, self.now, self._state_of(about))

    def ask_for_money(self, by: str) -> Outcome:
        if not self._may(by, "money"):
            return "refused"
        if not self.four_eyes:
            return "done"
        self.requests.append(Request("money", f"agent {len(self.requests)}", by, self.now))
        return "waits"

    def confirm(self, number: int, by: str) -> Outcome:
        """Confirm a request, which then is done."""
        request = self.requests[number]
        kind = "money" if request.what == "money" else "staff"
        is_late = self.now >= request.at + _REQUEST_LASTS
        if request.state != "waiting" or is_late or not (self._may(by, kind) and self._may(request.by, kind)):
            return "refused"
        if by in (request.by, request.about):
            return "refused"
        if not self.rule.are_independent(self._staff(), by, request.by, request.at):
            return "refused"
        outcome = self._perform(request, by)
        if outcome == "done":
            request.state, request.decided_by, request.decided_at = "confirmed", by, self.now
            request.turn = 1 + max(one.turn for one in self.requests)
        return outcome

    def link_of(self, number: int) -> Link | None:
        """Give the link of a request in two halves, which those who see its page can look up while it is good."""
        request = self.requests[number]
        turns = [one.turn for one in self.requests if (one.what, one.about) == ("link", request.about)]
        if request.what != "link" or request.decided_at is None or request.turn < max(turns):
            return None
        account = self.accounts[request.about]
        if self.now - request.decided_at > _LINK_LASTS or account.has_password or not account.is_active:
            return None
        return Link(request.about, request.decided_at, self._state_of(request.about), number)

    def open(self, link: Link) -> Outcome:
        """Set a password by a link, of which somebody has all that it takes."""
        account = self.accounts[link.account]
        is_late = self.now - link.at > _LINK_LASTS
        if not account.is_active or is_late or link.state != self._state_of(link.account):
            return "refused"
        account.version += 1
        account.ends += 1
        account.has_password = True
        return "done"

    def are_independent(self, one: str, other: str) -> bool:
        return self.rule.are_independent(self._staff(), one, other, self.now)

    def _link_alone(self, about: str, by: str) -> Link | Outcome:
        if not self._may(by, "staff") or not self.decides(by) or not self._is_open_to(about, by):
            return "refused"
        account = self.accounts[about]
        if self.four_eyes and account.signed_in and not account.has_factor:
            return "refused"
        self._note(LINK, about, by, "")
        return Link(about, self.now, self._state_of(about))

    def _is_open_to(self, about: str, by: str) -> bool:
        return about != by and about in self.accounts and self.accounts[about].is_active

    def _may(self, name: str, kind: str) -> bool:
        account = self.accounts[name]
        return account.is_active and (FINANCE if kind == "money" else ADMINISTRATOR) in account.roles

    def _is_asked(self, new: Request) -> bool:
        lasts = [one for one in self.requests if one.state == "waiting" and self.now < one.at + _REQUEST_LASTS]
        same = (new.what, new.about, new.roles, new.before)
        return any((one.what, one.about, one.roles, one.before) == same for one in lasts)

    def _would_be_done(self, request: Request) -> bool:
        """Tell whether the operation would refuse nothing."""
        account = self.accounts.get(request.about)
        if account is None or request.what == "make":
            return account is None and request.what == "make"
        return (
            request.about != request.by
            and {
                "link": account.is_active,
                "activate": not account.is_active,
                "deactivate": account.is_active and self._keeps_administrator(request, frozenset()),
                "reset": account.has_factor,
                "change_roles": account.roles == request.before
                and self._keeps_administrator(request, request.roles if account.is_active else frozenset()),
            }[request.what]
        )

    def _keeps_administrator(self, request: Request, own: frozenset[str]) -> bool:
        others = [one.roles for name, one in self.accounts.items() if one.is_active and name != request.about]
        return any(ADMINISTRATOR in roles for roles in (own, *others))

    def _perform(self, request: Request, second: str) -> Outcome:
        if request.what == "money":
            return "done"
        if not self._would_be_done(request):
            return "refused"
        if request.what == "make":
            self._make(request.about, request.roles, request.by, second)
            return "done"
        account = self.accounts[request.about]
        if request.what == "link":
            self._renew(request.about)
            self._note(LINK, request.about, request.by, second)
        elif request.what == "change_roles":
            is_of_decider = ADMINISTRATOR in account.roles | request.roles
            account.roles = request.roles
            self._note("person.roles_changed", request.about, request.by, second, is_of_decider=is_of_decider)
        elif request.what == "reset":
            account.has_factor = False
            account.ends += 1
            self._note("person.second_factor_reset", request.about, request.by, second)
        else:
            account.is_active = request.what == "activate"
            account.ends += 1
            self._note(f"person.{request.what}d", request.about, request.by, second)
        return "done"

    def _make(self, name: str, roles: frozenset[str], by: str, second: str) -> None:
        self.accounts[name] = Account(roles)
        self._note(MADE, name, by, second, is_of_decider=ADMINISTRATOR in roles)

    def _renew(self, name: str) -> None:
        self.accounts[name].version += 1
        self.accounts[name].ends += 1
        self.accounts[name].has_password = False

    def _state_of(self, name: str) -> tuple[int, int]:
        return self.accounts[name].version, self.accounts[name].signed_in

    def _note(self, action: str, about: str, by: str, second: str, *, is_of_decider: bool = False) -> None:
        self.acts.append(Act(action, about, by, second, self.now, is_of_decider))

    def _staff(self) -> Staff:
        deciders = frozenset(name for name in self.accounts if self.decides(name))
        active = frozenset(name for name in deciders if self.accounts[name].is_active)
        return Staff(self.acts, active, deciders, self.now)

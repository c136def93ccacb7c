"""The console of the memory and the real one at once: every act has to end alike in both."""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.contrib.auth.models import User
from django.core import mail
from django.db import connection
from django.db.models import F

from foundation.commands import AUTHOR
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from staff.kinds import Kind, register
from staff.links import halves_for
from staff.models import AuditEntry, ChangeRequest
from staff.people import make_account, roles_of
from staff.people_requests import propose_change, propose_link
from staff.second_person import Proposal, confirm, propose
from tests.staff.acts.consoles import Begun, Link, MemoryConsole, Outcome
from tests.staff.acts.rules import Rule
from tests.support.sign_in import PASSWORD, Browser, code_of, wait_for_next_code

MONEY = "test.money"
_CHANGES = {"reset": "reset_second_factor"}


class BothConsoles(MemoryConsole):
    """The console in memory, which does what it is told in the real one, too."""

    def __init__(self, settings: Any) -> None:
        super().__init__(Rule())
        self._settings = settings
        register(Kind(MONEY, "Move money", "ledger.add_balancemovement", lambda *_: "Moved."))
        self._numbers: list[int] = []
        self._paths: dict[Link, str] = {}
        self._browsers: dict[Begun, Browser] = {}

    def advance(self, by: timedelta) -> None:
        """Let time pass: for rows, everything was done so much earlier."""
        super().advance(by)
        if not by:
            return
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")  # the audit takes no changes
            AuditEntry.objects.update(at=F("at") - by)
            cursor.execute("SET LOCAL session_replication_role = origin")
        moments = ("asked_at", "expires_at", "decided_at")
        ChangeRequest.objects.update(**{name: F(name) - by for name in moments})

    def make_by_command(self, name: str, roles: frozenset[str]) -> None:
        super().make_by_command(name, roles)
        user = make_account(name, name=name, email=_address(name), roles=sorted(roles), by=AUTHOR)
        user.set_password(PASSWORD)
        user.save()

    def sign_in(self, name: str, *, sets_up_factor: bool) -> None:
        super().sign_in(name, sets_up_factor=sets_up_factor)
        user = User.objects.get(username=name)
        user.last_login = utc_now() + timedelta(seconds=self.accounts[name].signed_in)  # links hold whole seconds
        user.save()
        if sets_up_factor:
            TOTP.activate(user, generate_totp_secret())

    def begin_login(self, name: str) -> Begun | None:
        remembered = super().begin_login(name)
        if remembered is not None:
            self._browsers[remembered] = browser = Browser()
            assert browser.enter_password(name)["Location"] == "/console/login/code/"
        return remembered

    def finish_login(self, login: Begun) -> Begun | None:
        if self.is_late(login):  # for the real one, hardly any time has passed
            return super().finish_login(login)
        browser, user = self._browsers[login], _user(login.account)
        if self.accounts[login.account].has_factor:
            wait_for_next_code(user)
            browser.enter_code(code_of(user))
        is_really_in = browser.is_in()
        remembered = super().finish_login(login)
        assert is_really_in == (remembered is not None), f"really in: {is_really_in}"
        return remembered

    def change(self, what: str, about: str, by: str, roles: frozenset[str] = frozenset()) -> Outcome:
        remembered = super().change(what, about, by, roles)
        if what == "link":
            return remembered  # `link` compares
        options: dict[str, Any] = {}
        if what == "make":
            options = {"name": about, "email": _address(about), "roles": sorted(roles)}
        elif what == "change_roles":
            options = {"roles": sorted(roles), "before": roles_of(User.objects.get(username=about))}
        return self._compare(remembered, lambda: self._propose(_CHANGES.get(what, what), about, by, **options))

    def link(self, about: str, by: str) -> Link | Outcome:
        remembered = super().link(about, by)
        path = ""

        def make() -> Outcome:
            nonlocal path
            made = propose_link(User.objects.get(username=about), by=_user(by), reason="R", shown=[])
            if isinstance(made, str):
                path = made
                return "done"
            return self._waits(made.request)

        self._compare("done" if isinstance(remembered, Link) else remembered, make)
        if isinstance(remembered, Link):
            self._paths[remembered] = path
        return remembered

    def send(self, about: str, by: str) -> Link | Outcome:
        remembered = super().send(about, by)
        self._compare(
            "done" if isinstance(remembered, Link) else remembered, lambda: self._propose("send_link", about, by)
        )
        if isinstance(remembered, Link):
            found = re.search(r"https://\S*", str(mail.outbox[-1].body))
            assert found
            self._paths[remembered] = urlsplit(found[0]).path
        return remembered

    def ask_for_money(self, by: str) -> Outcome:
        remembered = super().ask_for_money(by)
        subject = f"agent {len(self.requests)}"
        proposal = Proposal(MONEY, "agent", subject, {"agent": subject}, [], "R")
        return self._compare(remembered, lambda: self._waits(propose(proposal, by=_user(by)).request))

    def confirm(self, number: int, by: str) -> Outcome:
        remembered = super().confirm(number, by)

        def confirm_it() -> Outcome:
            confirm(self._numbers[number], by=_user(by))
            return "done"

        return self._compare(remembered, confirm_it)

    def link_of(self, number: int) -> Link | None:
        remembered = super().link_of(number)
        request = ChangeRequest.objects.get(pk=self._numbers[number])
        address, code = (halves_for(one, request) for one in (request.decided_by, request.asked_by))
        assert (address is not None) == (code is not None) == (remembered is not None)
        return remembered

    def open(self, link: Link) -> Outcome:
        remembered = super().open(link)
        path, code = self._paths.get(link, ""), ""
        if link.request is not None:
            request = ChangeRequest.objects.get(pk=self._numbers[link.request])
            address, other = (halves_for(one, request) for one in (request.decided_by, request.asked_by))
            path, code = (address.path, other.code) if address and other else ("", "")
        return self._compare(remembered, lambda: _open(path, code))

    def _propose(self, change: str, about: str, by: str, **options: Any) -> Outcome:
        return self._waits(propose_change(change, about, by=_user(by), reason="R", shown=[], **options).request)

    def _waits(self, request: ChangeRequest | None) -> Outcome:
        if request is None:
            return "done"
        self._numbers.append(request.pk)
        return "waits"

    def _compare(self, remembered: Outcome, act: Any) -> Outcome:
        wanted = {"FOUR_EYES": self.four_eyes, "CONSOLE_URL": "https://pay.example.com" if self.has_mail else ""}
        for name, value in wanted.items():
            if getattr(self._settings, name) != value:  # the fixture keeps what there was, each time
                setattr(self._settings, name, value)
        why = ""
        try:
            really: Outcome = act()
        except OperationRefused as refusal:
            really, why = "refused", str(refusal)
        assert really == remembered, f"really {really} ({why}), but {remembered} in memory"
        return remembered


def _user(name: str) -> User:
    return User.objects.get(username=name)


def _address(name: str) -> str:
    return f"{name}@example.com"


def _open(path: str, code: str) -> Outcome:
    browser = Browser()
    answer = browser.get(path) if path else None
    if answer is None or answer.status_code != 302:
        return "refused"
    answer = browser.post(answer["Location"], new_password1=PASSWORD, new_password2=PASSWORD, code=code)
    return "done" if answer.status_code == 302 else "refused"

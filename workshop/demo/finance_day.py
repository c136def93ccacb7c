"""The demo's second story: a day of finance staff. They work in the console itself, over HTTP, as people do."""

import csv
import io
import re
import time
from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple
from urllib.parse import quote, urlencode

from chains.catalogue import find_chain
from foundation.kernel.assets import Asset
from ledger.models import LogEntry
from services.models import Service
from staff.models import ChangeRequest
from workshop.demo.client import Api
from workshop.demo.console import Console
from workshop.demo.customer import Deposit, deposit
from workshop.demo.history.seeding import seed_history
from workshop.demo.people import BEN, FIONA, OLGA
from workshop.demo.promises import Order, Payment, Refusal, Registration
from workshop.demo.screen import Screen
from workshop.demo.seed import EVM, RESEARCH, SOLANA
from workshop.demo.steps import Steps
from workshop.demo.story import GPU

_SEEDED = 200
_ALARM_S = 60
_POLL_S = 0.5
_SERVICES = "/console/services/service/"
_CHAINS = "/console/payments/chainstate/"
_DEPOSITS = "/console/payments/deposit/"
_MISSPELT = "agent-reserch"
_INCIDENT = "Its provider reports an incident"


class Link(NamedTuple):
    """A page to look at afterwards: who signs in for it, where it is, and what is there."""

    person: str
    path: str
    what: str


class Office:
    """The people of the story, each signed in at the console."""

    def __init__(self, url: str, password: str) -> None:
        self.people = {name: Console(url, name, password) for name in (FIONA, BEN, OLGA)}

    def confirm(self, person: str) -> str:
        """Let a person confirm the newest request; returns what the console says."""
        newest = ChangeRequest.objects.latest("id")
        page = self.people[person].open(f"/console/staff/changerequest/{newest.pk}/change/")
        forms = [form for form in page.forms if form.action.endswith("/decide/") and not form.has("reason")]
        if not forms:
            return page.text
        return " ".join(self.people[person].send(forms[0], page, confirm="yes").messages)


def play(api: Api, screen: Screen, password: str, check_processes: Callable[[], None]) -> list[Link]:
    """Play a day; the screen counts the steps that came out as promised. Returns the pages to look at."""
    screen.heading("A day of finance: staff work in the console, agents go on paying")
    if LogEntry.objects.count() < _SEEDED:
        screen.line(f"      making {_SEEDED} earlier decisions, payees and alarms to look at")
        seed_history(_SEEDED)
    office = Office(api.url, password)
    steps = Steps(api, screen, int(time.time()), check_processes)
    paid = _follow_a_changed_payee(steps, screen, office)
    _set_money_aside(screen, office)
    _raise_an_alarm(screen, office, check_processes)
    _find_and_export(api, screen, office, paid)
    return [
        Link(FIONA, "/console/", "what waits for a person, and pictures of the last 30 days"),
        Link(FIONA, f"{_SERVICES}?status=pending_approval", "payees that wait; one looks like a known payee"),
        Link(FIONA, f"{_DEPOSITS}?state=aside", "money that names no agent"),
        Link(BEN, "/console/staff/changerequest/", "what waited for a second person, and what became of it"),
        Link(
            FIONA,
            f"/console/payments/payment/{paid.answer.json()['id']}/change/",
            "one payment from request to receipt",
        ),
        Link(OLGA, "/console/backoffice/alarm/", "alarms, and who was told"),
    ]


def _follow_a_changed_payee(steps: Steps, screen: Screen, office: Office) -> Payment:
    """Approve a payee whose address changed by two characters: that takes two people."""
    known = Service.objects.get(pk=GPU)
    changed = f"{EVM}:{known.address[:-2].lower()}{'00' if known.address[-2:] != '00' else '11'}"
    steps.register(Registration(GPU, "GPU hours", changed, Asset.USDC), {"pending_approval"})
    order = Order(RESEARCH, GPU, "1.00", Asset.USDC)
    refused = Refusal(403, "service_not_approved", "service_approved")
    steps.pay_refused("Nobody is paid at an address that nobody approved", order, refused)

    screen.step(f"{FIONA} approves {GPU} alone", "the console marks what changed, and asks for a second person")
    shown, said = office.people[FIONA].act(_SERVICES, "approve", GPU, reason="They moved to a new wallet")
    changed_characters = re.search(r"\d+ of \d+ characters differ", shown)
    screen.came(
        f"{changed_characters and changed_characters[0]}. {re.sub(' Request [0-9]+: .*$', '', said)}",
        as_promised=changed_characters is not None and "second person" in said,
    )
    screen.step(f"{FIONA} confirms her own request", "refused: somebody else has to")
    refused_because = re.search(r"You asked for this yourself[^.]*\.", office.confirm(FIONA))
    is_pending = Service.objects.get(pk=GPU).status == "pending_approval"
    screen.came(str(refused_because and refused_because[0]), as_promised=bool(refused_because) and is_pending)
    screen.step(f"{BEN} confirms exactly what {FIONA} saw", f"{GPU} is approved")
    screen.came(office.confirm(BEN), as_promised=Service.objects.get(pk=GPU).status == "approved")
    return steps.pay(order)


def _set_money_aside(screen: Screen, office: Office) -> None:
    screen.step("A customer's deposit names an agent that is not there", "set aside, on the list of what to credit")
    deposit(Deposit(_MISSPELT, "25", Asset.USDC, EVM))
    took_s = _wait_for(office.people[FIONA], f"{_DEPOSITS}?state=aside", _MISSPELT)
    screen.came(f"set aside after {took_s:.0f} s", as_promised=took_s < _ALARM_S)


def _raise_an_alarm(screen: Screen, office: Office, check_processes: Callable[[], None]) -> None:
    """Stop a chain, see the alarm on every page, and start it again by two."""
    caip2 = find_chain(SOLANA).caip2  # type: ignore[union-attr]
    olga = office.people[OLGA]
    screen.step(f"{OLGA} stops signing on {SOLANA}", "an alarm on every page within a minute")
    olga.act(_CHAINS, "stop_signing", caip2, reason=_INCIDENT)
    took_s = _wait_for(office.people[BEN], "/console/payments/payment/", _INCIDENT, check_processes)
    screen.came(f"after {took_s:.0f} s", as_promised=took_s < _ALARM_S)
    screen.step(f"{OLGA} starts it again; {BEN} confirms", "asked for, confirmed, signing")
    _, asked = olga.act(_CHAINS, "start_signing", caip2, reason="The provider is well again")
    came = office.confirm(BEN)
    screen.came(came, as_promised="second person" in asked and "tarted" in came)


def _find_and_export(api: Api, screen: Screen, office: Office, paid: Payment) -> None:
    fiona = office.people[FIONA]
    screen.step("A payment is found by its idempotency key", "its page, by the one search box")
    found = fiona.open(f"/console/search/?{urlencode({'q': paid.key})}")
    payment_id = paid.answer.json()["id"]
    screen.came(payment_id, as_promised=payment_id in found.text)
    screen.step(f"The export of {RESEARCH}'s payments, added up", "what the API says was spent")
    text = fiona.read(f"/console/payments/payment/?{urlencode({'agent': RESEARCH, 'export': 'csv'})}")
    total = sum((Decimal(row["amount"]) for row in csv.DictReader(io.StringIO(text))), Decimal(0))
    budget = api.get(f"/v1/agents/{quote(RESEARCH)}/budget").json()
    screen.came(f"{total} and {budget['spentThisWeek']}", as_promised=total >= Decimal(budget["spentThisWeek"]) > 0)


def _wait_for(console: Console, path: str, words: str, check: Callable[[], None] = lambda: None) -> float:
    """Open a page until it says something, for a minute at most; returns the seconds that it took."""
    began = time.monotonic()
    while words not in console.open(path).text and time.monotonic() < began + _ALARM_S:
        check()
        time.sleep(_POLL_S)
    return time.monotonic() - began

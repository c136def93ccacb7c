"""Steps of docs/operate/upgrading.md, and what has to be true of all that was paid meanwhile."""

import json

from tests.runbooks.clients import Clients
from tests.runbooks.installation import Company, block
from tests.runbooks.patience import wait_for
from tests.runbooks.releases import ORDER, Release
from tests.support.factories import new_name

UPGRADING = "docs/operate/upgrading.md"
FORWARD, BACK = ORDER, ORDER[::-1]
_TROUBLE = ("Traceback", "unregistered task", "CRITICAL", "ERROR")


def exchange(old: Release, new: Release, kinds: tuple[str, ...], clients: Clients) -> None:
    """Let one release take the place of another one, one type of processes after the other."""
    for kind in kinds:
        if kind == "beat":  # never two
            old.stop(kind)
            new.start(kind)
            continue
        new.start(kind)
        if kind == "web":  # as a load balancer does, which then waits for what the old one still answers
            clients.url = new.url
        clients.wait_for_answers(1)
        old.stop(kind)


def register(clients: Clients) -> str:
    """Register a payee with whichever release serves."""
    service = new_name("shop")
    assert clients.register(service, "evm-localnet:0x57ea7ae200000000000000000000000000000002") == 201
    return service


def approve(this: Release, service: str) -> None:
    """Approve a payee that the last release registered on this one's tables."""
    this.manage("approve_service", service, "--reason", "Registered while the release was taken back")


def check_answers(clients: Clients) -> None:
    """See that every request had its one answer at once, and the same one when it was repeated."""
    assert clients.failures == []
    assert clients.troubles() == []
    assert set(clients.reads) == {200}
    assert [one.key for one in clients.asked if len(set(one.answers)) != 1] == []
    assert len({one.payment for one in clients.asked}) == len(clients.asked)


def check_payments(company: Company, clients: Clients) -> None:
    """See that every payment is settled, that its payee was told, and that the books and the chain agree."""
    asked = {one.payment for one in clients.asked}
    company.wait_until_settled()
    assert {one for (one,) in company.sql("SELECT id FROM payments_payment")} == asked
    wait_for(lambda: _told(company) >= asked, "the payee was told of all")
    reported = company.run(block(UPGRADING, "readyz")).answer
    assert (reported["entries"], reported["problems"]) == (len(asked), [])


def check_logs(*releases: Release) -> None:
    """See that no process met anything that it does not know: a column, a task, a row."""
    logs = {(one.name, kind): one.log_of(kind) for one in releases for kind in (*ORDER, "release")}
    found = {
        who: [line for line in log.splitlines() if any(word in line for word in _TROUBLE) and "/readyz" not in line]
        for who, log in logs.items()
    }
    assert {who: lines for who, lines in found.items() if lines} == {}


def _told(company: Company) -> set[str]:
    """Name the payments that the payee was told are settled."""
    events = [json.loads(request.body) for request in company.payee.requests]
    return {event["data"]["paymentId"] for event in events if event["type"] == "payment.settled"}

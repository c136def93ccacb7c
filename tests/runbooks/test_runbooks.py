"""The runbooks of docs/operate, rehearsed one after the other on one installation, by their own commands."""

import os
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest

from tests.runbooks import chain_faults, databases, exchanged_secrets, followed, lost_money, upgrade
from tests.runbooks.clients import Clients
from tests.runbooks.installation import AGENTS, Company, block, founded
from tests.runbooks.releases import ORDER, UNKNOWN_TO_LAST, Release, running
from tests.support.last_release import unpack_last_release

pytestmark = [pytest.mark.hard, pytest.mark.long(180)]
# How many payments the restored backup has forgotten.
TAIL = 30


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    with founded(tmp_path_factory.mktemp("runbooks")) as made:
        yield made


@pytest.fixture
def last(company: Company, tmp_path: Path) -> Iterator[Release]:
    """Have the last release, on the servers of the company."""
    pytest.importorskip("coincurve", reason="The last release signs with coincurve, which this Python has no wheel of.")
    unpack_last_release(tmp_path / "last")
    known = {name: value for name, value in company.this.variables.items() if name not in UNKNOWN_TO_LAST}
    release = Release("last", tmp_path / "last", known, company.this.logs)
    with running(release):
        yield release


@pytest.fixture
def clients(company: Company) -> Clients:
    """Have this release run, and those who pay."""
    clients = company.clients or company.begin(company.this)
    assert set(company.this.running) == set(ORDER), "An earlier rehearsal broke off: this release does not run."
    return clients


def test_a_release_takes_the_place_of_the_last_one_and_gives_it_back_under_load(company, last):
    """First of all: it begins with an empty database."""
    clients = company.begin(last)

    with clients.at_work():
        company.run(block(upgrade.UPGRADING, "migrate"))
        clients.wait_for_answers(1)
        upgrade.exchange(last, company.this, upgrade.FORWARD, clients)
        # As platforms do that run `release` at a rollback, too: it puts back what has no migration.
        last.migrate()
        clients.wait_for_answers(1)
        upgrade.exchange(company.this, last, upgrade.BACK, clients)
        registered = upgrade.register(clients)
        company.this.migrate()
        upgrade.exchange(last, company.this, upgrade.FORWARD, clients)

    upgrade.approve(company.this, registered)
    upgrade.check_answers(clients)
    upgrade.check_payments(company, clients)
    upgrade.check_logs(company.this, last)


def test_a_payment_is_followed_by_its_id_through_the_logs_of_all_processes(company, clients):
    paid = clients.pay(AGENTS[0])
    followed.wait_until_told(company, paid)

    found = followed.lines_of(company, paid)

    tx = followed.transaction_of(company, paid)
    assert [(one["status"], one["tx"], one["agentId"]) for one in found["web"]] == [(201, tx, paid.agent)]
    assert {(one["tx"], one["agentId"]) for one in found["worker"]} == {(tx, paid.agent)}
    # Whoever looks late sees it in a block only when that is final.
    steps = [one["state"] for one in found["worker"] if one["state"] != "included"]
    assert steps == ["broadcast", "final", "settled"]
    assert sorted((one["state"], one["tx"], one["attempt"], one["outcome"]) for one in found["webhooks"]) == [
        ("approved", tx, 1, "delivered"),
        ("settled", tx, 1, "delivered"),
    ]
    assert found["beat"] == []


def test_a_stuck_chain_says_why_and_goes_on_once_it_is_mended(company, clients):
    chain_faults.pause_the_escrow_and_drain_the_relayers(company)
    waiting = clients.ask(AGENTS[0])
    assert waiting.final[0] == 503
    chain_faults.see_why(company)

    chain_faults.mend(company)
    clients.insist(waiting)
    with chain_faults.node_away(company):
        chain_faults.see_that_the_node_is_away(company)
    company.wait_until_settled()
    chain_faults.see_that_it_goes_on(company)


def test_a_lying_provider_among_three_holds_up_nothing_is_named_and_taken_out(company, clients):
    with chain_faults.lying_provider(company) as liar:
        paid = clients.pay(AGENTS[0])
        chain_faults.wait_for_contradiction(company, paid)
        company.wait_until_settled()
        chain_faults.see_who_lies(company, paid, liar)
    chain_faults.check_what_was_believed(company)


def test_an_alarm_that_promises_exceed_holdings_is_explained_booked_and_ended(company, clients):
    tx = lost_money.take(company)
    waiting = clients.ask(AGENTS[0])
    assert waiting.final[0] == 503
    lost_money.see_what_left(company, tx)

    lost_money.book_and_cover(company, tx)
    lost_money.begin_again(company)
    clients.insist(waiting)
    company.wait_until_settled()


@pytest.mark.skipif(
    not which("redis-cli") and "CI" not in os.environ, reason="redis-cli is not installed (redis-tools)"
)
def test_what_moves_no_money_is_exchanged_while_payments_go_on(company, clients):
    before = exchanged_secrets.look(company, clients)
    exchanged_secrets.exchange(company, before)
    exchanged_secrets.check(company, clients, before)
    exchanged_secrets.take_away(company, before)


def test_the_installation_moves_to_another_server_and_a_backup_of_that_is_restored(company, clients, tmp_path):
    moved = databases.move(company, clients)
    company.this.start(*ORDER)

    with clients.at_work():
        backup = databases.back_up(moved)
        clients.wait_for_answers(1)
    company.wait_until_settled()
    databases.archive(moved)
    forgotten = databases.spend(clients, TAIL)
    company.wait_until_settled()
    databases.restore(company, moved, backup)

    databases.compare_with_chains(company, forgotten)
    databases.book_what_it_forgot(company, forgotten, tmp_path)
    databases.begin_again(company)
    assert {clients.ask_again(one) for one in forgotten} == {503}
    for agent in AGENTS:
        clients.pay(agent)
    company.wait_until_settled()
    databases.check_the_payee(company, clients)

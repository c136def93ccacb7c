"""The audit has every change by people: no command and no action of the console may forget it.

What is not run here is run by the tests of its own page or command, which look at the audit, too.
"""

import io
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib import admin
from django.core.management import CommandError, call_command, get_commands
from django.test import RequestFactory

from chains.catalogue import Vm
from foundation.commands import AUTHOR
from foundation.kernel.times import utc_now
from owner.management.commands import move_escrow, rotate_keys
from owner.rotations import Rotated
from payments.models import ChainState, Outflow, Relayer
from staff.models import AuditEntry
from tests.staff.changes import ACTIONS, COMMANDS
from tests.support.clocks import pay_at
from tests.support.factories import make_agent, make_service, new_address, new_name
from tests.support.local_ids import LOCALNET
from tests.support.reconciliations import make_agent_with_surplus

APPS = {
    "allowance", "backoffice", "ledger", "operators", "owner", "payments", "policy", "services", "staff", "workshop",
}  # fmt: skip
LIMITS = ("--max-per-payment=1", "--daily-limit=2", "--weekly-limit=3")
ROOT = Path(__file__).parents[2]


def run(command: str, *arguments: str) -> list[tuple[str, str, str]]:
    """Run a command; return what the audit has of it: each action, its author and its reason."""
    before = AuditEntry.objects.count()
    call_command(command, *arguments, stdout=io.StringIO(), stderr=io.StringIO())
    entries = list(AuditEntry.objects.order_by("id").values_list("action", "author", "reason"))
    return entries[before:]


def test_every_command_says_what_it_leaves_in_the_audit():
    assert {name for name, app in get_commands().items() if app in APPS} == COMMANDS.keys()


def test_every_action_of_the_console_says_what_it_leaves_in_the_audit(make_superuser_request):
    found = {
        f"{model._meta.label_lower} {name}"
        for model, page in admin.site._registry.items()
        for name in page.get_actions(make_superuser_request)
        if model._meta.app_label in APPS | {"auth"}
    }

    assert found == ACTIONS.keys()


def test_every_action_that_is_named_is_recorded_somewhere():
    sources = "".join(path.read_text() for app in APPS for path in (ROOT / app).rglob("*.py"))
    named = set[str]().union(*(one for one in COMMANDS.values() if isinstance(one, set)), *ACTIONS.values())
    written = {action for action in named if f'"{action}"' in sources}

    # Those of one page are put together from its name and what was done.
    assert {action.partition(".")[0] for action in named - written} <= {
        "api_key", "payment", "person", "service", "webhook",
    }  # fmt: skip


@pytest.fixture
def make_superuser_request(db: None) -> object:
    from django.contrib.auth.models import User  # noqa: PLC0415 - for this fixture alone

    request = RequestFactory().post("/console/")
    request.user = User.objects.create(username=new_name("user"), is_staff=True, is_superuser=True)
    return request


# --- Commands ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("command", "arguments", "action"),
    [
        ("set_policy", ["--daily-limit=5"], "policy.changed"),
        ("pause_agent", [], "agent.paused"),
        ("adjust_balance", ["--amount=-1"], "agent.adjusted"),
        ("withdraw_funds", ["1", f"--to={new_address()}", f"--chain={LOCALNET}", "--no-wait"], "withdrawal.booked"),
    ],
)
def test_a_command_about_an_agent_is_recorded_with_its_reason(db, command, arguments, action):
    agent = make_agent_with_surplus()

    assert run(command, agent.id, *arguments, "--reason=Ticket 7") == [(action, AUTHOR, "Ticket 7")]


def test_a_new_agent_and_its_first_money_are_recorded(db):
    rich = make_agent_with_surplus()
    recorded = run(
        "create_agent", new_name("agent"), "--asset=USDC", *LIMITS, "--fund=1", f"--chain={LOCALNET}", "--reason=R"
    )

    assert recorded == [("agent.created", AUTHOR, "R"), ("agent.funded", AUTHOR, "R")]
    assert run("fund_agent", rich.id, "1", f"--chain={LOCALNET}") == [("agent.funded", AUTHOR, "")]


def test_what_changes_nothing_is_not_recorded(db):
    agent = make_agent()

    assert run("resume_agent", agent.id) == []
    assert run("start_signing") == []
    assert len(run("pause_agent", agent.id)) == 1
    assert run("pause_agent", agent.id) == []
    assert [action for action, *_ in run("resume_agent", agent.id)] == ["agent.resumed"]


def test_commands_about_keys_are_recorded(db):
    assert run("create_api_key", "--name=k") == [("api_key.issued", AUTHOR, "")]
    newest = AuditEntry.objects.filter(action="api_key.issued")[0].subject
    assert {action for action, *_ in run("rotate_api_key", newest)} == {"api_key.issued", "api_key.rotated"}
    assert [action for action, *_ in run("revoke_api_key", newest)] == ["api_key.revoked"]


@pytest.mark.parametrize(
    ("stop", "start"),
    [(("stop_signing",), ("start_signing",)), (("stop_chain", LOCALNET), ("start_chain", LOCALNET))],
)
def test_switches_are_recorded(db, stop, start):
    subject = "signer" if len(stop) == 1 else "chain"

    assert run(*stop, "--reason=R") == [(f"{subject}.stopped", AUTHOR, "R")]
    assert run(*start, "--reason=S") == [(f"{subject}.started", AUTHOR, "S")]


def test_a_relayer_that_is_switched_is_recorded(db):
    relayer = Relayer.objects.filter(chain=LOCALNET).order_by("number")[0]
    options = (f"--chain={LOCALNET}", "--reason=R")

    assert run("relayers", *options, "--disable", relayer.address) == [("relayer.disabled", AUTHOR, "R")]
    assert run("relayers", *options, "--disable", relayer.address) == []
    assert run("relayers", *options, "--enable", relayer.address) == [("relayer.enabled", AUTHOR, "R")]


def test_a_booked_outflow_a_cancelled_withdrawal_and_a_repaired_clock_are_recorded(db):
    agent, tx = make_agent_with_surplus(), new_name("tx")
    Outflow.objects.create(chain=LOCALNET, tx=tx, log_index=0, block_number=1, amount=1, why="R", found_at=utc_now())
    assert run("book_outflow", tx, "--loss", "--reason=Gone") == [("outflow.booked", AUTHOR, "Gone")]

    run("withdraw_funds", agent.id, "1", f"--to={new_address()}", f"--chain={LOCALNET}", "--no-wait", "--reason=R")
    reference = AuditEntry.objects.filter(action="withdrawal.booked")[0].subject
    cancelled = run("withdraw_funds", "--cancel", reference, "--reason=Wrong address")
    assert cancelled == [("withdrawal.cancelled", AUTHOR, "Wrong address")]

    pay_at(agent, make_service(), utc_now() + timedelta(days=30), "1")
    repaired = run("clocks", "--repair", agent.id, "--reason=NTP was off")
    assert repaired == [("agent.clock_repaired", AUTHOR, "NTP was off")]


def test_what_is_counted_anew_is_recorded(db):
    agent = make_agent()

    assert run("recount", agent.id, "--reason=A row was changed") == [("agent.recounted", AUTHOR, "A row was changed")]


def test_a_comparison_by_hand_is_recorded(db):
    # Other tests leave tokens of theirs behind on this chain: the watcher may record that it stopped signing there.
    recorded = [entry for entry in run("catch_up", f"--chain={LOCALNET}") if entry[1] != "watcher"]

    assert recorded == [("chain.caught_up", AUTHOR, "")]


def test_a_rotation_of_keys_is_recorded_when_it_begins_and_when_it_is_done(db, monkeypatch):
    rotated = Rotated(is_to_be_set=False, facts={"policySigner": "0x1"})
    monkeypatch.setitem(rotate_keys._ROTATE, Vm.EVM, lambda _task: rotated)

    recorded = run("rotate_keys", "evm-localnet", "--yes")

    assert recorded == [("escrow.rotation_begun", AUTHOR, ""), ("escrow.rotated", AUTHOR, "")]
    assert AuditEntry.objects.filter(action="escrow.rotated")[0].after == {"policySigner": "0x1"}


def test_the_exchange_of_an_escrow_is_recorded_when_it_begins_and_when_it_is_done(db, monkeypatch):
    monkeypatch.setattr(move_escrow, "move", lambda _task, new: {"CHAIN_BASE_ESCROW": new})
    new = new_address()

    recorded = run("move_escrow", "evm-localnet", f"--to={new}", "--yes")

    assert recorded == [("escrow.move_begun", AUTHOR, ""), ("escrow.moved", AUTHOR, "")]
    after = AuditEntry.objects.filter(action="escrow.moved")[0].after or {}
    assert after["to"].lower() == new.lower()


# --- What is recorded -------------------------------------------------------------------------------------------------
def test_an_entry_has_what_changed_in_the_words_of_the_api(db):
    agent = make_agent(balance="10")

    run("set_policy", agent.id, "--daily-limit=5.5")
    entry = AuditEntry.objects.get(action="policy.changed", subject=agent.id)

    assert entry.before == {
        "policyRevision": "polrev_1", "maxPerPayment": "10.00", "dailyLimit": "50.00", "weeklyLimit": "100.00",
        "allowedServices": None,
    }  # fmt: skip
    assert entry.after == {**entry.before, "policyRevision": "polrev_2", "dailyLimit": "5.50"}


def test_what_is_refused_leaves_no_entry(db, refused: Callable[..., str]):
    agent = make_agent(balance="1")

    refused("adjust_balance", agent.id, "--amount=-2", "--reason=R")
    refused("set_policy", agent.id, "--daily-limit=0.0000001")
    refused("pause_agent", agent.id, f"--reason={'x' * 501}")

    assert not AuditEntry.objects.filter(subject=agent.id).exclude(action="agent.created").exists()
    agent.refresh_from_db()
    assert agent.status == "active"


@pytest.fixture
def refused() -> Callable[..., str]:
    def call(*arguments: str) -> str:
        with pytest.raises(CommandError) as error:
            call_command(*arguments, stdout=io.StringIO(), stderr=io.StringIO())
        return str(error.value)

    return call


def test_what_the_system_stops_by_itself_is_recorded_as_its_own_doing(db):
    from payments.reconciling.reconciliation import RECONCILIATION  # noqa: PLC0415 - the settings come first
    from payments.settling.chain_switch import stop_signing_on  # noqa: PLC0415

    chain = new_name("chain")
    stop_signing_on(chain, by=RECONCILIATION, reason="Money is missing.")
    stop_signing_on(chain, by="ann", reason="It is stopped already")

    assert ChainState.objects.get(pk=chain).stopped_reason == "Money is missing."
    entries = AuditEntry.objects.filter(subject=chain).values_list("action", "author", "reason")
    assert list(entries) == [("chain.stopped", "reconciliation", "Money is missing.")]

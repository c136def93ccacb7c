"""`manage.py change`: what it refuses, what it says, and its old names."""

import json

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, get_commands, load_command_class

from foundation.commands import AUTHOR
from payments.models import ChainState
from policy.api_keys import digest
from policy.models import ApiKey, PolicyRevision
from staff.commands import OfKind
from staff.kinds import _kinds, kinds_of_a_shell
from staff.models import ChangeRequest
from staff.second_person import Proposal, propose
from tests.staff.changed_rows import APPS, changed, read_rows
from tests.staff.people import make_user
from tests.staff.scenes import SCENES, change, words_of
from tests.support.commands import run
from tests.support.factories import make_agent, make_api_key
from tests.support.local_ids import LOCALNET

# Who is independent of whom is known of people who have signed in, not of who runs a command.
OF_THE_CONSOLE = {"staff.change", "staff.link"}


@pytest.fixture
def ann(db: None) -> User:
    return make_user(is_superuser=True)


# --- What a shell may not ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", sorted(OF_THE_CONSOLE))
def test_accounts_are_changed_in_the_console_where_it_is_known_who_is_independent(db, kind):
    with pytest.raises(CommandError, match="invalid choice"):
        change(kind, "change=make", "username=eve")


@pytest.mark.parametrize(
    ("kind", "words", "said"),
    [
        ("agent.pause", [], "agent.pause needs agent."),
        ("agent.pause", ["agent"], "agent.pause takes agent, each once"),
        ("agent.pause", ["agent=a", "agent=b"], "each once"),
        ("agent.pause", ["agent=a", "by=fiona"], "Argument 2: agent.pause takes agent"),
        ("signer.stop", ["agent=a"], "signer.stop takes nothing"),
        ("agent.pause", ["agent=nobody"], "There is no agent nobody."),
        ("policy.raise", ["agent=nobody", "daily_limit=1"], "There is no agent nobody."),
        ("policy.raise", ["agent=AGENT"], "Name at least one limit"),
        ("policy.raise", ["agent=AGENT", "daily_limit=NaN"], "daily_limit"),
        ("policy.raise", ["agent=AGENT", "daily_limit=-1"], "daily_limit"),
        ("policy.raise", ["agent=AGENT", "daily_limit=5", "revision=x"], "revision: The number"),
        ("policy.raise", ["agent=AGENT", "daily_limit=5", "revision=7"], "changed meanwhile"),
        ("agent.make", ["agent=a", "asset=GOLD", "max_per_payment=1"], "asset: The allowance's asset: USDC"),
        ("balance.adjust", ["agent=AGENT", "amount=1e3", f"chain={LOCALNET}"], "amount"),
        ("balance.adjust", ["agent=AGENT", "amount=-100000", f"chain={LOCALNET}"], "balance"),
        ("balance.adjust", ["agent=AGENT", "amount=1", "chain=nowhere"], "There is no chain nowhere."),
        ("withdrawal.book", ["agent=AGENT", "amount=-1", f"chain={LOCALNET}", f"recipient=0x{'1' * 40}"], "than zero"),
        ("chain.stop", ["chain=solana"], "The chain solana is not served here."),
        ("chain.start", [f"chain={LOCALNET}", "stopped_at=yesterday"], "stopped_at: "),
        ("service.approve", ["service=nobody", "registration=1"], "nobody"),
    ],
)
def test_what_is_malformed_or_about_nothing_is_refused_in_a_sentence(db, kind, words, said):
    agent = make_agent(balance="5")
    before = read_rows()

    _, refusal = run("change", kind, *(word.replace("AGENT", agent.id) for word in words), "--reason=R")

    assert refusal is not None
    assert said in refusal
    assert "Traceback" not in refusal
    assert read_rows() == before


def test_a_reason_that_the_audit_cannot_keep_changes_nothing(db):
    agent = make_agent()

    assert "500 characters" in run("change", "agent.pause", f"agent={agent.id}", f"--reason={'x' * 501}")[1]
    agent.refresh_from_db()
    assert agent.status == "active"


def test_what_a_command_lets_pass_counts_as_no_one_persons_and_a_persons_does(db, settings, ann):
    settings.FOUR_EYES, settings.FOUR_EYES_ABOVE = True, {}
    agent, other = make_agent(), make_agent()

    change("policy.raise", f"agent={agent.id}", "daily_limit=80")
    asked = {"agent": other.id, "revision": 1, "daily_limit": "80"}
    alone = Proposal("policy.raise", "policy", other.id, asked, [], "R")
    propose(alone, by=ann, needs_second=False)

    newest = {row.agent_id: row.is_by_one for row in PolicyRevision.objects.filter(number=2)}
    assert (newest[agent.id], newest[other.id]) == (False, True)


def test_what_is_not_named_stays_as_it_is(db):
    agent = make_agent()

    change("policy.raise", f"agent={agent.id}", "allowed_services=a,b")

    first, second = PolicyRevision.objects.filter(agent=agent).order_by("number")
    assert second.allowed_services == ["a", "b"]
    assert (second.max_per_payment, second.daily_limit) == (first.max_per_payment, first.daily_limit)


def test_a_key_is_not_repeated(db):
    key = make_api_key()

    lines, _ = run("change", "api_key.revoke", f"key={key}", "--reason=R")

    record = ApiKey.objects.get(digest=digest(key))
    assert json.loads(lines[-1]) == {"kind": "api_key.revoke", "done": f"Revoked {record.id}."}
    assert key not in "".join(lines)


def test_help_lists_every_kind_and_what_it_takes():
    shown = load_command_class("staff", "change").create_parser("manage.py", "change").format_help()

    for kind in kinds_of_a_shell().values():
        assert f"  {kind.name}: {kind.title}\n" in shown
        for name in kind.takes or {}:
            assert f"{name}=" in shown.partition(f"  {kind.name}: ")[2]


# --- The old names ----------------------------------------------------------------------------------------------------
def old_names() -> dict[str, OfKind]:
    commands = {name: load_command_class(app, name) for name, app in get_commands().items() if app in APPS}
    return {name: command for name, command in commands.items() if isinstance(command, OfKind)}


def test_the_old_names_are_doors_of_known_kinds():
    assert {name: command.kind for name, command in old_names().items()} == {
        "approve_payment": "payment.approve",
        "decline_payment": "payment.decline",
        "disable_service": "service.disable",
        "pause_agent": "agent.pause",
        "reject_service": "service.reject",
        "reopen_service": "service.reopen",
        "resume_agent": "agent.resume",
        "revoke_api_key": "api_key.revoke",
        "start_chain": "chain.start",
        "start_signing": "signer.start",
        "stop_chain": "chain.stop",
        "stop_signing": "signer.stop",
    }


@pytest.mark.parametrize("name", sorted(old_names()))
def test_an_old_name_makes_the_same_rows_as_its_kind(db, name):
    command = old_names()[name]
    arguments = SCENES[command.kind]()
    known = ChainState.objects.count()

    old = [str(arguments[command.subject[1]])] if command.subject else []
    by_old_name = changed(lambda: run(name, *old, "--reason=Ticket 7"), AUTHOR)
    words = words_of(_kinds[command.kind], arguments)

    assert by_old_name == changed(lambda: change(command.kind, *words), AUTHOR)
    assert by_old_name != []
    assert ChainState.objects.count() == known
    assert not ChangeRequest.objects.filter(kind=command.kind).exists()

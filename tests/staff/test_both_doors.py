"""Console and shell make the same change: each kind, by both doors, leaves the same rows."""

import io
import json
import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command, get_commands, load_command_class
from django.db import transaction
from django.db.models import AutoField, BigAutoField, ForeignKey, Model

from foundation.commands import AUTHOR
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from payments.funding.withdrawals import book_withdrawal
from payments.models import ChainState, Outflow
from payments.settling.chain_switch import stop_signing_on
from policy.api_keys import digest
from policy.models import ApiKey, PolicyRevision, SignerSwitch
from policy.operations import pause_agent, switch_signer
from services.operations import disable_service, reject_service
from staff.commands import OfKind, read_arguments
from staff.kinds import Kind, _kinds, kinds_of_a_shell
from staff.models import ChangeRequest
from staff.second_person import Proposal, confirm, propose
from tests.staff.people import make_user
from tests.support.commands import run
from tests.support.deposits import make_deposit_aside
from tests.support.factories import make_agent, make_api_key, make_service, new_address, new_name
from tests.support.local_ids import LOCALNET
from tests.support.reconciliations import make_agent_with_surplus

# What a shell has not: who is independent of whom is known of people who have signed in.
OF_THE_CONSOLE = {"staff.change", "staff.link"}
APPS = {"backoffice", "ledger", "payments", "policy", "services", "staff"}
ONES_OWN = {"auth.user", "staff.changerequest"}
Arguments = dict[str, Any]


# --- What there is before each kind of change, and what the console proposes then -------------------------------------
def an_agent() -> Arguments:
    return {"agent": make_agent().id}


def a_paused_agent() -> Arguments:
    agent = make_agent()
    pause_agent(agent.id, by="eve")
    return {"agent": agent.id}


def limits() -> Arguments:
    return {"max_per_payment": "1.00", "daily_limit": "200.00", "weekly_limit": "300.50", "allowed_services": None}


def a_movement() -> Arguments:
    return {"agent": make_agent_with_surplus().id, "amount": "0.50", "chain": LOCALNET, "after": None}


def a_withdrawal() -> Arguments:
    agent = make_agent_with_surplus()
    kept = book_withdrawal(agent.id, amount=Decimal(1), chain=LOCALNET, recipient=new_address(), by="eve", reason="R")
    return {"withdrawal": kept.reference}


def an_outflow(agent: str | None) -> Arguments:
    facts = {"log_index": 0, "block_number": 1, "asset": "USDC", "amount": 1, "why": "R", "found_at": utc_now()}
    return {"outflow": Outflow.objects.create(chain=LOCALNET, tx=new_name("tx"), **facts).pk, "agent": agent}


def a_service(change: Callable[..., Any] | None = None, *, approved: bool = False) -> Arguments:
    service = make_service(approved=approved)
    if change is not None:
        change(service.id, by="eve", reason="R")
    service.refresh_from_db()
    return {"service": service.id, "registration": service.registration}


def a_stopped_signer() -> Arguments:
    switch_signer(is_signing=False, by="eve")
    stopped_at = SignerSwitch.objects.get(pk=1).changed_at
    assert stopped_at is not None
    return {"stopped_at": stopped_at.isoformat()}


def a_stopped_chain() -> Arguments:
    stopped_at = stop_signing_on(LOCALNET, by="eve", reason="R").stopped_at
    assert stopped_at is not None
    return {"chain": LOCALNET, "stopped_at": stopped_at.isoformat()}


def a_key() -> Arguments:
    make_api_key()
    return {"key": ApiKey.objects.order_by("-id")[0].pk}


SCENES: dict[str, Callable[[], Arguments]] = {
    "agent.make": lambda: {"agent": new_name("agent"), "asset": "USDC", **limits()},
    "agent.pause": an_agent,
    "agent.resume": a_paused_agent,
    "api_key.revoke": a_key,
    "balance.adjust": a_movement,
    "chain.start": a_stopped_chain,
    "chain.stop": lambda: {"chain": LOCALNET},
    "deposit.credit": lambda: {"deposit": make_deposit_aside().pk, **an_agent()},
    "outflow.book": lambda: an_outflow(make_agent(balance="5").id),
    "policy.raise": lambda: {**an_agent(), "revision": 1, **limits()},
    "service.approve": a_service,
    "service.disable": lambda: a_service(approved=True),
    "service.enable": lambda: a_service(disable_service, approved=True),
    "service.reject": a_service,
    "service.reopen": lambda: a_service(reject_service),
    "signer.start": a_stopped_signer,
    "signer.stop": dict,
    "withdrawal.book": lambda: {**a_movement(), "recipient": new_address()},
    "withdrawal.cancel": a_withdrawal,
}


def words_of(kind: Kind, arguments: Arguments) -> list[str]:
    """Write what the console proposes as somebody writes it in a shell."""
    written = {name: value for name, value in arguments.items() if value is not None}
    if arguments.get("allowed_services", ...) is None:
        written["allowed_services"] = "all"
    if kind.name == "outflow.book" and arguments["agent"] is None:
        written["agent"] = ""
    lists = {name: ",".join(value) for name, value in written.items() if isinstance(value, list)}
    return [f"{name}={value}" for name, value in {**written, **lists}.items()]


def change(kind: str, *words: str, reason: str = "Ticket 7") -> dict[str, Any]:
    out = io.StringIO()
    call_command("change", kind, *words, f"--reason={reason}", stdout=out)
    last: dict[str, Any] = json.loads(out.getvalue().splitlines()[-1])
    return last


# --- The rows ---------------------------------------------------------------------------------------------------------
def read_rows() -> dict[tuple[str, Any], dict[str, Any]]:
    """Read all rows, by model and key, without what each door and each run has of its own."""
    models = [model for model in apps.get_models() if model._meta.app_label in APPS]
    return {
        (model._meta.label_lower, row.pk): _plain(row)
        for model in models
        if model._meta.label_lower not in ONES_OWN
        for row in model._default_manager.all()
    }


def _plain(row: Model) -> dict[str, Any]:
    found = {}
    for field in row._meta.concrete_fields:
        of = field.target_field if isinstance(field, ForeignKey) else field
        value = field.value_from_object(row)
        if isinstance(of, AutoField | BigAutoField):
            value = value is not None
        found[field.name] = "a moment" if isinstance(value, datetime) else value
    return found


def changed(make: Callable[[], object], author: str, second: str = "") -> list[tuple[str, str]]:
    """Make a change, and take it back; returns the rows that were new or other, with its author as `author`."""
    before = read_rows()
    with transaction.atomic():
        make()
        after = read_rows()
        transaction.set_rollback(True)
    rows = [(of[0], json.dumps(row, default=str)) for of, row in after.items() if before.get(of) != row]
    ours = [(model, row) for model, row in rows if '"subject_type": "request"' not in row]
    return sorted((model, _neutral(row, author, second)) for model, row in ours)


def _neutral(row: str, author: str, second: str) -> str:
    row = row.replace(f'"{author}"', '"author"').replace(f'"confirmed_by": "{second}"', '"confirmed_by": ""')
    row = re.sub(r"(wdr|log|key|evt)_[0-9a-z]{26}", r"\1_new", row)
    return re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "a moment", row)


@pytest.fixture
def ann(db: None) -> User:
    return make_user(is_superuser=True)


@pytest.fixture
def bea(db: None) -> User:
    return make_user(is_superuser=True)


@pytest.fixture(params=sorted(_kinds.keys() - OF_THE_CONSOLE))
def proposal(request: Any, db: None) -> Proposal:
    kind = request.param
    return Proposal(kind, kind.partition(".")[0], "it", SCENES[kind](), [], "Ticket 7")


def test_every_kind_is_tried_by_both_doors():
    assert SCENES.keys() == kinds_of_a_shell().keys() == _kinds.keys() - OF_THE_CONSOLE


def test_what_the_console_proposes_can_be_written_in_a_shell(proposal: Proposal):
    kind = _kinds[proposal.kind]
    given = {name: value for name, value in proposal.arguments.items() if value is not None or name != "after"}

    assert read_arguments(kind, words_of(kind, dict(proposal.arguments))) == given
    assert proposal.arguments.keys() <= (kind.takes or {}).keys()


def test_one_person_in_the_console_and_a_command_make_the_same_rows(proposal: Proposal, ann: User):
    words = words_of(_kinds[proposal.kind], dict(proposal.arguments))

    by_shell = changed(lambda: change(proposal.kind, *words), AUTHOR)

    assert by_shell == changed(lambda: propose(proposal, by=ann), ann.username)
    assert "staff.auditentry" in {model for model, _ in by_shell}
    assert all('"reason": "Ticket 7"' in row for model, row in by_shell if model == "staff.auditentry")


def test_two_people_in_the_console_and_a_command_make_the_same_rows(proposal: Proposal, ann, bea, settings):
    settings.FOUR_EYES = True
    words = words_of(_kinds[proposal.kind], dict(proposal.arguments))

    def ask_and_confirm() -> None:
        request = propose(proposal, by=ann).request
        assert request is not None
        confirm(request.pk, by=bea)

    by_shell = changed(lambda: change(proposal.kind, *words), AUTHOR)

    assert by_shell == changed(ask_and_confirm, ann.username, bea.username)


def test_both_doors_say_the_same(proposal: Proposal, ann: User):
    words = words_of(_kinds[proposal.kind], dict(proposal.arguments))
    said = []
    for make in (
        lambda: change(proposal.kind, *words)["done"],
        lambda: propose(proposal, by=ann).message,
    ):
        with transaction.atomic():
            said.append(re.sub(r"wdr_\w+", "wdr", make()))
            transaction.set_rollback(True)

    assert said[0] == said[1]


def test_both_doors_refuse_with_the_same_words(proposal: Proposal, ann: User):
    """What was done already, or is about nothing: whatever the operation says, both say it."""
    words = words_of(_kinds[proposal.kind], dict(proposal.arguments))
    change(proposal.kind, *words)
    said = []
    for make in (lambda: change(proposal.kind, *words), lambda: propose(proposal, by=ann)):
        try:
            with transaction.atomic():
                make()
                transaction.set_rollback(True)
        except (CommandError, OperationRefused) as refusal:
            said.append(str(refusal))

    assert len(said) in (0, 2)  # some changes may be made twice
    assert len(set(said)) < 2


# --- What a shell may not ---------------------------------------------------------------------------------------------
def test_a_change_without_a_reason_is_refused_as_in_the_console(proposal: Proposal, ann: User):
    words = words_of(_kinds[proposal.kind], dict(proposal.arguments))

    before = read_rows()
    assert run("change", proposal.kind, *words, "--reason= ") == ([], "Give a reason.")
    assert "--reason" in run("change", proposal.kind, *words)[1]
    assert read_rows() == before


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
        ("agent.pause", ["agent=a", "by=fiona"], "by=fiona"),
        ("signer.stop", ["agent=a"], "signer.stop takes nothing"),
        ("agent.pause", ["agent=nobody"], "There is no agent nobody."),
        ("policy.raise", ["agent=nobody", "daily_limit=1"], "There is no agent nobody."),
        ("policy.raise", ["agent=AGENT"], "Name at least one limit"),
        ("policy.raise", ["agent=AGENT", "daily_limit=NaN"], "daily_limit"),
        ("policy.raise", ["agent=AGENT", "daily_limit=-1"], "daily_limit"),
        ("policy.raise", ["agent=AGENT", "daily_limit=5", "revision=x"], "revision=x"),
        ("policy.raise", ["agent=AGENT", "daily_limit=5", "revision=7"], "changed meanwhile"),
        ("agent.make", ["agent=a", "asset=GOLD", "max_per_payment=1"], "asset=GOLD"),
        ("balance.adjust", ["agent=AGENT", "amount=1e3", f"chain={LOCALNET}"], "amount"),
        ("balance.adjust", ["agent=AGENT", "amount=-100000", f"chain={LOCALNET}"], "balance"),
        ("balance.adjust", ["agent=AGENT", "amount=1", "chain=nowhere"], "There is no chain nowhere."),
        ("withdrawal.book", ["agent=AGENT", "amount=-1", f"chain={LOCALNET}", f"recipient={'0x' + '1' * 40}"], ""),
        ("chain.stop", ["chain=solana"], "The chain solana is not served here."),
        ("chain.start", [f"chain={LOCALNET}", "stopped_at=yesterday"], "stopped_at=yesterday"),
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

"""Each kind of finding, planted for real, is said by every place that shows it, with the same sentence.

The table in docs/console/alarms.md says which places these are.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings as configured
from django.utils.html import escape
from solders.keypair import Keypair

from backoffice.alarms.looking import look
from backoffice.findings import FINDERS, errands
from backoffice.models import Alarm
from foundation import lost_servers
from foundation.environment.process_types import ProcessType
from foundation.findings import Finder, Finding, Kind, Page, Severity
from foundation.heartbeats import key_of
from foundation.kernel.assets import Asset
from foundation.kernel.times import format_instant, utc_now
from operators.doctor.examining import examine
from operators.doctor.registry import CHECKS
from operators.metrics import exposition
from payments.models import AgentGas, ChainState, Deposit, DepositState, Outflow, Payment, Reconciliation, Relayer
from payments.settling.chain_switch import LONG_AGO, stop_signing_on
from payments.settling.transitions import fail
from policy.key_operations import create_api_key
from policy.models import Agent
from policy.operations import switch_signer
from services.models import Service
from services.operations import Registration, register_service
from services.served_chains import served_chains
from staff.audit import record
from staff.models import ChangeRequest
from tests.documents.pages import text_of
from tests.support.commands import run
from tests.support.factories import decide, make_agent, make_service, new_address, new_name
from tests.support.heartbeats import NAME, hearts_that_beat, make_heartbeat
from tests.support.holds import say
from tests.support.local_ids import LOCALNET, SOLANA_LOCALNET
from tests.support.localnets import EVM, SOLANA
from tests.support.reconciliations import make_comparison
from tests.support.webhook_rows import make_delivery, make_endpoint

pytestmark = pytest.mark.usefixtures("db", "quiet")

NOW = utc_now()
KINDS = [pytest.param(finder, kind, id=kind.name) for finder in FINDERS for kind in finder.kinds]
AREAS = ("processes", "chains", "webhooks", "books")


@pytest.fixture
def quiet(db: None, settings: Any) -> Iterator[Any]:
    """Let nothing be wrong; gives the Redis that says which processes are there."""
    settings.METRICS_TOKEN = "monitor"
    settings.CHAINS = dict(configured.CHAINS)
    Service.objects.filter(status="pending_approval").update(status="rejected")
    Agent.objects.update(status="paused")
    for caip2 in settings.CHAINS:
        make_comparison(caip2)
    with hearts_that_beat() as redis:
        yield redis
    served_chains.cache_clear()


@pytest.fixture
def plant(quiet: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], object]:
    """Let something of a kind be wrong."""

    def plant_one(kind: str) -> None:
        if kind == "servers":  # tests/distributed loses a real one
            for asks in (lost_servers, exposition):
                monkeypatch.setattr(asks, "find_away", lambda: {"10.0.0.6:5432": 3})
        else:
            PLANTED[kind](settings, quiet)

    return plant_one


# --- How each is planted ----------------------------------------------------------------------------------------------
def _lose_a_token(settings: Any, *lost: Asset) -> None:
    served = settings.CHAINS[LOCALNET]
    nowhere = {asset: "0x" + f"{70 + place}" * 20 for place, asset in enumerate(lost) if asset in served.tokens}
    settings.CHAINS[LOCALNET] = replace(served, tokens={**served.tokens, **nowhere})
    served_chains.cache_clear()
    EVM.observe()


def _lose_the_only_token(settings: Any) -> None:
    """On Solana: an EVM escrow without any token that it knows is a mismatch, too."""
    served = settings.CHAINS[SOLANA_LOCALNET]
    settings.CHAINS[SOLANA_LOCALNET] = replace(served, tokens={Asset.USDC: str(Keypair().pubkey())})
    served_chains.cache_clear()
    SOLANA.observe()


def _use_up_gas(settings: Any) -> None:
    AgentGas.objects.create(agent=make_agent(), chain=LOCALNET, hour=utc_now(), cost=Decimal(1))
    settings.GAS_BUDGET_PER_AGENT = Decimal("0.5")


def _lose_money() -> None:
    row: Any = {"tx": new_name("tx"), "log_index": 0, "block_number": 1, "why": "It is no payment of ours."}
    Outflow.objects.create(
        chain=LOCALNET, asset=Asset.USDC, amount=Decimal(1), recipient="a stranger", found_at=NOW, **row
    )


def _set_a_deposit_aside() -> None:
    Deposit.objects.create(
        chain=LOCALNET, tx=new_name("tx"), log_index=0, block_number=1, depositor="0x1", token="0x2", asset="USDC",
        amount=Decimal(1), named_agent="nobody", state=DepositState.ASIDE, note="No such agent.", found_at=NOW,
    )  # fmt: skip


def _register_anew() -> None:
    service = make_service()
    register_service(Registration(service.pk, "A payee", f"evm-localnet:{new_address()}", Asset.USDC, None), key_id="")


def _ask_for_a_second_person() -> None:
    ChangeRequest.objects.create(
        kind="agent.limits", subject_type="agent", subject="agent-1", arguments={}, shown=[], reason="A test",
        asked_by="somebody", asked_at=NOW, expires_at=NOW + timedelta(hours=1),
    )  # fmt: skip


def _approve_what_is_not_signed() -> None:
    entry = decide(make_agent(approval_above=Decimal(5)), make_service(), "6")
    say(entry, at=utc_now() - timedelta(minutes=2))


def _let_a_key_expire_soon() -> None:
    row, _ = create_api_key(by="ada", name="billing")
    type(row).objects.filter(pk=row.pk).update(expires_at=utc_now() + timedelta(days=1))


def _run_dry() -> None:
    agent = make_agent(balance="1000", max_per_payment="50")
    decide(agent, make_service(), "23.31")
    Agent.objects.filter(pk=agent.pk).update(balance=Decimal("9.98"))


def _of_state(**columns: Any) -> Callable[[Any, Any], object]:
    return lambda *_: ChainState.objects.filter(chain=LOCALNET).update(**columns)


# How each kind is planted: by the settings and the Redis with the heartbeats.
PLANTED: dict[str, Callable[[Any, Any], object]] = {
    "signer": lambda *_: switch_signer(is_signing=False, by="ada"),
    "keys": lambda *_: _let_a_key_expire_soon(),
    "unseen": _of_state(observed_at=LONG_AGO),
    "mismatch": _of_state(mismatch="The escrow's owner is another."),
    "chains": lambda *_: stop_signing_on(LOCALNET, reason="Said by a person.", by="ann"),
    "nodes": _of_state(contradictions={"1": {"at": format_instant(utc_now()), "about": "block 7"}}),
    "assets": lambda settings, _: _lose_a_token(settings, Asset.EURC),
    "relayers": lambda *_: Relayer.objects.filter(chain=LOCALNET).update(is_funded=False),
    "no asset": lambda settings, _: _lose_the_only_token(settings),
    "rotation": lambda *_: Relayer.objects.filter(chain=LOCALNET).update(is_enabled=False),
    "gas": lambda settings, _: _use_up_gas(settings),
    "missing": lambda *_: make_comparison(LOCALNET, drift="-5"),
    "unconfirmed": lambda *_: make_comparison(LOCALNET, unconfirmed=["pay_1"]),
    "comparisons": lambda *_: Reconciliation.objects.filter(chain=LOCALNET).update(created_at=NOW - timedelta(hours=1)),
    "pools": lambda *_: make_agent(balance="1000000000"),
    "outflows": lambda *_: _lose_money(),
    "deposits": lambda *_: _set_a_deposit_aside(),
    "unsettled": lambda *_: decide(make_agent(), make_service(), "2.5", at=utc_now() - timedelta(minutes=16)),
    "failed": lambda *_: fail(Payment.objects.get(entry=decide(make_agent(), make_service())), reason="A test"),
    "holds": lambda *_: decide(make_agent(approval_above=Decimal(5)), make_service(), "6"),
    "unsigned": lambda *_: _approve_what_is_not_signed(),
    "payees": lambda *_: _register_anew(),
    "approvals": lambda *_: make_service(approved=False),
    "webhooks overdue": lambda *_: make_delivery(make_endpoint(), next_attempt_at=utc_now() - timedelta(minutes=5)),
    "webhooks disabled": lambda *_: make_endpoint(disabled_at=NOW, disabled_reason="A test"),
    "webhooks failing": lambda *_: make_endpoint(failing_since=NOW),
    "requests": lambda *_: _ask_for_a_second_person(),
    "lockouts": lambda *_: record("person.locked_out", subject_type="person", subject="kim", by="page of sign-in"),
    "limit": lambda *_: decide(make_agent(daily_limit="10"), make_service(), "9"),
    "dry": lambda *_: _run_dry(),
    "processes": lambda _, redis: redis.delete(key_of(ProcessType.WORKER, NAME)),
    "schedulers": lambda _, redis: make_heartbeat(redis, ProcessType.BEAT, name="b-host:2"),
}


# --- Where it is said -------------------------------------------------------------------------------------------------
def table() -> dict[str, tuple[str, str]]:
    """Read the table of kinds: whose errand each is, and who says it besides."""
    rows = text_of("docs/console/alarms.md").split("| Kind |")[1].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {kind.strip("`"): (errand, said) for kind, _, errand, said in cells}


def samples(anonymous: Any, gauge: str) -> list[str]:
    text = anonymous.get("/metrics", authorization="Bearer monitor").content.decode()
    return [line for line in text.splitlines() if re.match(rf"{gauge}[ {{]", line)]


def one_of(finder: Finder, kind: Kind) -> Finding:
    found = [one for one in finder.find() if one.kind.name.partition(" ")[0] == kind.name or one.kind is kind]
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(("finder", "kind"), KINDS)
def test_it_is_said_in_the_same_sentence_wherever_it_is_said(finder: Finder, kind: Kind, plant, anonymous, superuser):
    errand, said_by = table()[kind.name]
    gauges = re.findall(r"`(allowance_\w+)`", said_by)
    before = {gauge: samples(anonymous, gauge) for gauge in gauges}
    plant(kind.name)
    finding = one_of(finder, kind)

    assert (escape(finding.says) in superuser.get("index").content.decode()) is bool(kind.told)
    look(utc_now())
    alarm = Alarm.objects.filter(kind=finding.kind.name, sentence=finding.says, is_over=False)
    assert alarm.exists() is (bool(kind.told) and finding.severity != Severity.INFO)
    assert errand == (", ".join(role.capitalize() for role in kind.told) or "nobody's")
    assert ("no alarm" in said_by) is (bool(kind.told) and finding.severity == Severity.INFO)

    ready = anonymous.get("/readyz").json()["checks"].values()
    assert (finding.unready in ready) is ("`/readyz`" in said_by)
    assert {gauge: samples(anonymous, gauge) == before[gauge] for gauge in gauges} == dict.fromkeys(gauges, False)
    if "doctor" in said_by:
        assert finding.says in [line.says for check, line in examine(CHECKS, AREAS) if check.looks_at != "open alarms"]
    for command in ("chains", "relayers"):
        assert any(finding.says in line for line in run(command)[0]) is (f"`{command}`" in said_by)


def test_the_table_has_every_kind_and_no_other() -> None:
    assert [*table()] == [kind.name for finder in FINDERS for kind in finder.kinds]


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert [one.says for finder in FINDERS for one in finder.find() if one.kind.name != "pools"] == []


def test_what_is_nobodys_errand_stands_in_no_queue() -> None:
    kind = replace(FINDERS[0].kinds[0], told=())
    finding = Finding(kind, Severity.ERROR, "It is so.", Page("Look at alarms", "backoffice_alarm"))

    assert errands([finding]) == []

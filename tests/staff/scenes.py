"""What there is before each kind of change, and what the console proposes then; and how a shell writes it."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from django.core.management import call_command

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.funding.withdrawals import book_withdrawal
from payments.models import Outflow
from payments.settling.chain_switch import stop_signing_on
from policy.limits import Limits
from policy.models import ApiKey, PolicyTemplate, SignerSwitch
from policy.more_limits import PARTS
from policy.operations import pause_agent, switch_signer
from policy.shadows import begin_shadow
from policy.template_operations import follow_template, make_template
from services.operations import disable_service, reject_service
from staff.kinds import Kind
from tests.support.deposits import make_deposit_aside
from tests.support.factories import decide, make_agent, make_api_key, make_service, new_address, new_name
from tests.support.local_ids import LOCALNET
from tests.support.reconciliations import make_agent_with_surplus

Arguments = dict[str, Any]


def an_agent() -> Arguments:
    return {"agent": make_agent().id}


def a_paused_agent() -> Arguments:
    agent = make_agent()
    pause_agent(agent.id, by="eve")
    return {"agent": agent.id}


def a_tried_agent() -> Arguments:
    agent = make_agent()
    begin_shadow(agent.id, change=lambda now: replace(now, daily_limit=Decimal(5)), by="eve")
    return {"agent": agent.id}


def limits() -> Arguments:
    """Give all limits as the console does, some of the optional ones set."""
    optional = {part.field: None for part in PARTS} | {
        "hourly_limit": "20.00", "payments_per_day": "7", "payee_limits": "a: payment 5.00, week none; b: day 0.00",
        "allowed_hours": "mon-fri 09:00-17:00, sat 10:00-14:00 Europe/Berlin", "new_payee_wait_hours": "24",
        "allowed_until": "2099-05-14T18:00:00.000Z", "allowed_tags": "compute, data",
    }  # fmt: skip
    amounts = {"max_per_payment": "1.00", "daily_limit": "200.00", "weekly_limit": "300.50"}
    return {**amounts, "allowed_services": None, **optional}


def limits_anywhere() -> Arguments:
    """Give those of a template, or to be tried, which name no parent."""
    return {name: text for name, text in limits().items() if name != "parent"}


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


def a_hold() -> Arguments:
    held = decide(make_agent(approval_above=Decimal(5)), make_service(), "6")
    return {"payment": held.payment_id}


def a_template() -> PolicyTemplate:
    few = Limits(Decimal(1), Decimal(2), Decimal(3))
    return make_template(new_name("template"), asset=Asset.USDC, limits=few, by="eve")


def a_followed_template() -> Arguments:
    template, agents = a_template(), sorted(make_agent().id for _ in range(2))
    for agent in agents:
        follow_template(agent, template.name, by="eve")
    return {
        "template": template.name,
        "version": 1,
        "followers": [f"2 {agent}" for agent in agents],
        **limits_anywhere(),
    }


def a_key() -> Arguments:
    make_api_key()
    return {"key": ApiKey.objects.order_by("-id")[0].pk}


SCENES: dict[str, Callable[[], Arguments]] = {
    "agent.make": lambda: {"agent": new_name("agent"), "asset": "USDC", **limits()},
    "agent.pause": an_agent,
    "agent.resume": a_paused_agent,
    "agent.set_webhook": lambda: {**an_agent(), "url": "https://owner.example.com/told"},
    "api_key.revoke": a_key,
    "balance.adjust": a_movement,
    "chain.start": a_stopped_chain,
    "chain.stop": lambda: {"chain": LOCALNET},
    "deposit.credit": lambda: {"deposit": make_deposit_aside().pk, **an_agent()},
    "outflow.book": lambda: an_outflow(make_agent(balance="5").id),
    "payment.approve": a_hold,
    "payment.decline": a_hold,
    "policy.raise": lambda: {**an_agent(), "revision": 1, **limits()},
    "service.approve": a_service,
    "service.disable": lambda: a_service(approved=True),
    "service.enable": lambda: a_service(disable_service, approved=True),
    "service.reject": a_service,
    "service.reopen": lambda: a_service(reject_service),
    "shadow.begin": lambda: {**an_agent(), **limits_anywhere()},
    "shadow.drop": a_tried_agent,
    "service.tag": lambda: {**a_service(approved=True), "tags": ["compute", "data"], "seen": []},
    "signer.start": a_stopped_signer,
    "signer.stop": dict,
    "template.change": a_followed_template,
    "template.follow": lambda: {**an_agent(), "template": a_template().name, "version": 1, "revision": 1},
    "template.make": lambda: {"template": new_name("template"), "asset": "USDC", **limits_anywhere()},
    "withdrawal.book": lambda: {**a_movement(), "recipient": new_address()},
    "withdrawal.cancel": a_withdrawal,
}


def words_of(kind: Kind, arguments: Arguments) -> list[str]:
    """Write what the console proposes as somebody writes it in a shell."""
    written = {name: value for name, value in arguments.items() if value is not None}
    if arguments.get("allowed_services", ...) is None:
        written["allowed_services"] = "*"
    written |= {part.field: "none" for part in PARTS if arguments.get(part.field, ...) is None}
    if kind.name == "outflow.book" and arguments["agent"] is None:
        written["agent"] = ""
    lists = {name: ",".join(value) for name, value in written.items() if isinstance(value, list)}
    return [f"{name}={value}" for name, value in {**written, **lists}.items()]


def change(kind: str, *words: str, reason: str = "Ticket 7") -> dict[str, Any]:
    out = io.StringIO()
    call_command("change", kind, *words, f"--reason={reason}", stdout=out)
    last: dict[str, Any] = json.loads(out.getvalue().splitlines()[-1])
    return last

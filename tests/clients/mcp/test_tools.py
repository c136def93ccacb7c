"""The tools over stdio and over HTTP, against real servers: what they do, and what they say to do after a refusal."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from typing import Any

import pytest
from allowance_client.errors import AllowanceError, ClientError, NoAnswer, Refusal
from allowance_mcp.advice import _BY_RULE, _LATER, _NEVER, UNKNOWN, on_refusal
from allowance_mcp.descriptions import describe_tools
from allowance_mcp.tools import Caller, call
from django.db import transaction

from policy.operations import pause_agent, switch_signer
from policy.parents import lock_agent
from policy.rules import RULE_NAMES, RULES, SIGNER_RULE
from services.models import Service
from tests.clients.mcp.conftest import Cast
from tests.clients.mcp.talking import Connection, Model, tell
from tests.support.factories import decide, make_service, new_name

pytestmark = pytest.mark.long(30)
TOOLS = ["request_payment", "pay_402", "evaluate_payment", "get_budget"]
TOOLS += ["list_services", "get_payment", "list_decisions"]


@pytest.fixture(params=["stdio", "http", "http of 2025"])
def connection(request: Any, cast: Cast) -> Connection:
    if request.param == "stdio":
        return cast.stdio
    return cast.http(request.getfixturevalue("mcp"), "auto" if request.param == "http" else "legacy")


def test_a_model_pays_and_reads_what_became_of_it(cast, connection):
    async def story(model: Model) -> None:
        listed = await model._client.list_tools()
        assert [tool.name for tool in listed.tools] == TOOLS

        paid = await model.pay(cast.service.id, "0.50", "Forecast for Oslo")
        read = await model.call("get_payment", payment_id=paid.payment_id)
        budget = await model.call("get_budget")
        decisions = await model.call("list_decisions", limit=5)
        services = await model.call("list_services")

        assert (paid.status, paid.content["payment"]["amount"]) == ("paid", "0.5")
        assert read.content["payment"]["escrow_id"].startswith("0x")
        assert read.content["payment"]["untrusted"] == {"reason": "Forecast for Oslo"}
        figures = budget.content["budget"]
        assert (Decimal(figures["balance"]), Decimal(figures["left_today"])) == (Decimal("999.5"), Decimal("49.5"))
        (decision,) = decisions.content["decisions"]
        assert (decision["payment_id"], decision["result"]) == (paid.payment_id, "approved")
        assert services.status == "ok"
        assert not any(said.is_error for said in model.heard)

    tell(connection, story)

    assert len(cast.payments()) == 1


def test_every_answer_is_the_same_as_text_and_as_structure(cast, mcp):
    async def story(model: Model) -> None:
        await model.pay(cast.service.id)
        await model.pay(cast.service.id, "99")
        await model.call("get_budget")

    heard = tell(cast.http(mcp), lambda model: _all_heard(model, story))

    for said in heard:
        assert said.content.keys() >= {"status", "what_to_do"}
        assert json.loads(said.text) == said.content


def test_evaluating_writes_nothing_and_says_what_a_request_would_get(cast, mcp):
    async def story(model: Model) -> Any:
        fits = await model.call("evaluate_payment", service=cast.service.id, amount="1")
        exceeds = await model.call("evaluate_payment", service=cast.service.id, amount="10.01")
        return fits.content, exceeds.content

    fits, exceeds = tell(cast.http(mcp), story)

    assert (fits["would_be"], fits["code"]) == ("approved", None)
    assert (exceeds["would_be"], exceeds["code"], exceeds["rule"], exceeds["limit"]) == (
        "blocked", "budget_exceeded", "under_max_payment", "10.00",
    )  # fmt: skip
    assert cast.count_entries() == 0


# --- Refusals ---------------------------------------------------------------------------------------------------------
def _paused(cast: Cast) -> dict[str, str]:
    pause_agent(cast.agent.id, by="test")
    return {}


def _spent(cast: Cast) -> dict[str, str]:
    for _ in range(5):
        decide(cast.agent, cast.service, "9.99")
    return {"amount": "2"}


REFUSALS: dict[str, tuple[Callable[[Cast], dict[str, str]], str, str | None, str]] = {
    "paused": (_paused, "agent_paused", "agent_active", "Stop paying"),
    "unknown": (lambda _: {"service": new_name("nobody")}, "service_not_approved", "service_approved", "list_services"),
    "pending": (lambda _: {"service": make_service(approved=False).id}, "service_not_approved", "service_approved",
                "only people approve"),
    "too much": (lambda _: {"amount": "10.01"}, "budget_exceeded", "under_max_payment", "Do not split"),
    "too much today": (_spent, "budget_exceeded", "under_daily_limit", "`allowed_at`"),
    "never": (lambda _: {"amount": "60"}, "budget_exceeded", "under_daily_limit", "waiting does not help"),
    "beyond the balance": (lambda _: {"amount": "1001"}, "budget_exceeded", "balance_covers_payment", "funded"),
    "too many decimals": (lambda _: {"amount": "0.0000001"}, "invalid_request", None, "Correct the arguments"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_is_no_error_of_the_protocol_and_says_what_to_do(cast, mcp, case):
    prepare, code, rule, advised = REFUSALS[case]
    asked = {"service": cast.service.id, "amount": "1", **prepare(cast)}
    before = cast.payments()

    said = tell(cast.http(mcp), lambda model: model.pay(**asked))

    assert (said.status, said.is_error, said.content["code"], said.content["rule"]) == ("refused", True, code, rule)
    assert advised in said.content["what_to_do"]
    assert cast.payments() == before


# --- Nothing was paid, or nobody knows --------------------------------------------------------------------------------
def test_while_nothing_can_be_signed_it_is_certain_that_nothing_was_paid(cast, mcp):
    switch_signer(is_signing=False, by="test")
    try:
        said = tell(cast.http(mcp), lambda model: model.pay(cast.service.id))
    finally:
        switch_signer(is_signing=True, by="test")

    assert (said.status, said.is_error) == ("nothing_paid", True)
    assert (said.content["code"], said.content["rule"]) == ("policy_signer_unavailable", "policy_signer_available")
    assert "Nothing was paid, which is certain" in said.content["what_to_do"]
    again = tell(cast.http(mcp), lambda model: model.pay(cast.service.id))
    assert (again.status, cast.payments()) == ("paid", [again.payment_id])


def test_while_somebody_else_holds_the_agent_nobody_knows_and_the_same_call_tells(cast, mcp):
    with transaction.atomic():
        lock_agent(cast.agent.id)  # as another call for the same intent does, which may end in a payment
        said = tell(cast.http(mcp), lambda model: model.pay(cast.service.id))

    assert (said.status, said.content["code"], said.content["rule"]) == ("unknown", "policy_signer_unavailable", None)
    assert "not known yet" in said.content["what_to_do"]
    assert "Nothing was paid" not in said.content["what_to_do"]


class Api:
    """An API that has no payment of an intent, and answers the request for it as it is told to."""

    def __init__(self, error: ClientError) -> None:
        self.error = error

    async def payments(self, **_: Any) -> AsyncIterator[Any]:
        return
        yield

    async def pay(self, **_: Any) -> Any:
        self.error.idempotency_key = "mcp-1"
        raise self.error


def _error(status: int, code: str, *, rule: str | None, was_unanswered: bool = False) -> AllowanceError:
    error = AllowanceError(Refusal(code, "No.", status, retry="same_key", rule=rule))
    error.was_unanswered = was_unanswered
    return error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (_error(503, "policy_signer_unavailable", rule="policy_signer_available"), "nothing_paid"),
        (_error(503, "policy_signer_unavailable", rule="policy_signer_available", was_unanswered=True), "unknown"),
        (_error(503, "policy_signer_unavailable", rule=None), "unknown"),
        (_error(429, "rate_limited", rule=None), "unknown"),
        (_error(500, "internal_error", rule=None), "unknown"),
        (NoAnswer("No answer came."), "unknown"),
    ],
)
def test_only_what_was_decided_under_the_agents_lock_and_answered_at_once_is_certain(error, status):
    caller: Any = Caller(Api(error), "agent")  # type: ignore[arg-type]
    asked = {"service": "shop", "amount": "1", "reason": "A test"}

    said = asyncio.run(call("request_payment", caller, asked))

    assert (said.content["status"], said.is_error) == (status, True)
    assert ("not known yet" in said.content["what_to_do"]) is (status == "unknown")


def test_a_refusal_by_a_rule_and_with_a_code_of_a_later_release_is_certain_and_told_by_its_message():
    refusal = Refusal("too_loud", "Payments are made in silence.", 403, retry="new_key", rule="within_decibels")
    caller: Any = Caller(Api(AllowanceError(refusal)), "agent")  # type: ignore[arg-type]

    said = asyncio.run(call("request_payment", caller, {"service": "shop", "amount": "1", "reason": "A test"}))

    assert (said.content["status"], said.content["message"]) == ("refused", "Payments are made in silence.")
    assert said.content["what_to_do"].startswith("Nothing was paid: a rule of this agent's policy refuses it")


@pytest.mark.parametrize("rule", [*RULES, SIGNER_RULE], ids=lambda rule: rule.name)
def test_after_a_refusal_by_any_rule_nobody_is_told_that_it_may_be_paid(rule):
    assert on_refusal(rule.refuses_with.code, rule.name) not in (UNKNOWN, on_refusal("unheard_of", "unheard_of"))


def test_no_advice_is_about_a_rule_that_there_is_not():
    codes = {rule.refuses_with.code for rule in RULES}
    assert {*_BY_RULE, *_LATER, *_NEVER} - {*RULE_NAMES} - codes == set()


def test_a_payee_that_is_not_served_is_not_listed_and_whoever_asks_is_told_not_to_ask_again(cast, mcp):
    here = cast.service.address
    Service.objects.filter(pk=cast.service.pk).update(chain="eip155:1", approved_recipient=f"eip155:1:{here}")

    async def story(model: Model) -> list[Any]:
        listed = await model.call("list_services")
        assert cast.service.id not in [one["id"] for one in listed.content["services"]]
        return [await model.pay(cast.service.id, reason=reason) for reason in ("A", "A", "B", "C")]

    for said in tell(cast.http(mcp), story):
        assert (said.status, said.content["code"]) == ("refused", "service_not_payable")
        assert "do not call again" in said.content["what_to_do"]
    assert (cast.payments(), cast.count_entries()) == ([], 1)


USELESS: list[dict[str, Any]] = [
    {"amount": 1},
    {"amount": "1e3"},
    {"amount": "-1"},
    {"amount": "0.00"},
    {"amount": ""},
    {"reason": None},
    {"reason": " "},
    {"reason": "r" * 1001},
    {"reason": "zero\0"},
    {"service": "a\nb"},
    {"service": ""},
    {"service": "s" * 256},
    {"after_payment": "the last one"},
    {"idempotency_key": "mine"},
    {"asset": "SOL"},
]


def test_arguments_that_cannot_be_used_are_answered_with_what_is_wrong_and_nothing_is_sent(cast, mcp):
    async def story(model: Model) -> None:
        for change in USELESS:
            await model.call("request_payment", **{"service": cast.service.id, "amount": "1", "reason": "r", **change})
        await model.call("get_payment", payment_id="1 or 1=1")
        await model.call("get_payment", payment_id="pay_" + "0" * 26, wait_s=31)
        await model.call("list_decisions", limit=51)
        await model.call("get_budget", agent_id="another")

    heard = tell(cast.http(mcp), lambda model: _all_heard(model, story))

    assert len(heard) == len(USELESS) + 4
    for said in heard:
        assert (said.status, said.is_error, said.content["code"]) == ("failed", True, "invalid_arguments")
        assert said.content["what_to_do"].startswith("Nothing was done.")
    assert cast.count_entries() == 0


def test_the_tools_say_which_of_them_takes_money_and_what_they_answer():
    tools = {tool.name: tool for tool in describe_tools()}

    assert [*tools] == TOOLS
    assert [
        name for name, tool in tools.items() if not (tool.annotations and tool.annotations.read_only_hint)
    ] == TOOLS[:2]
    for tool in tools.values():
        assert tool.input_schema["additionalProperties"] is False
        assert len(tool.description or "") <= 1024  # more is refused where models are called
        assert {"status", "what_to_do"} <= {*(tool.output_schema or {})["required"]}
    paying = tools["request_payment"]
    for code in (
        "agent_paused", "service_not_approved", "service_not_payable", "budget_exceeded", "outside_allowed_time",
        "approval_declined", "rate_limited",
    ):  # fmt: skip
        assert code in (paying.description or "")


async def _all_heard(model: Model, story: Any) -> Any:
    await story(model)
    return model.heard

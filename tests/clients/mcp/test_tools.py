"""The tools over stdio and over HTTP, against real servers: what they do, and what they say to do after a refusal."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from allowance_mcp.descriptions import describe_tools

from policy.operations import pause_agent
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
        await model.call("list_decisions", limit=51)
        await model.call("get_budget", agent_id="another")

    heard = tell(cast.http(mcp), lambda model: _all_heard(model, story))

    assert len(heard) == len(USELESS) + 3
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
        assert {"status", "what_to_do"} <= {*(tool.output_schema or {})["required"]}
    paying = tools["request_payment"]
    for code in ("agent_paused", "service_not_approved", "budget_exceeded", "invalid_request", "rate_limited"):
        assert code in (paying.description or "")


async def _all_heard(model: Model, story: Any) -> Any:
    await story(model)
    return model.heard

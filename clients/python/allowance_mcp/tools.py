"""What each tool does: read the arguments, ask the API, and say what came of it and what to do next."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from allowance_client import AsyncAllowance, Evaluation
from allowance_client.errors import AllowanceError, ApprovalDeclined, ApprovalPending, ClientError

from allowance_mcp import advice, holding_advice
from allowance_mcp.arguments import (
    BadArgument,
    Purchase,
    read_count,
    read_demanded_purchase,
    read_nothing,
    read_payment_and_wait,
    read_purchase,
)
from allowance_mcp.intents import Intents
from allowance_mcp.outcomes import AlreadyPaid, Declined, Paid, StillRefused, TooManyAttempts, Waiting
from allowance_mcp.presenting import (
    Content,
    figures_of,
    has_optional_limits,
    level_of,
    present_budget,
    present_decision,
    present_error,
    present_evaluation,
    present_payment,
    present_service,
)
from allowance_mcp.texts import clean

# Longer than the client's own repetitions; shorter than a model's client waits.
LONGEST_CALL_S = 45
# With one answer of the API, and with failures that stored nothing, which the client repeats by itself.
TIMEOUT_S, PATIENCE_S = 15, 8
# For a person's approval, in one call.
LONGEST_WAIT_S = 30
MOST_SERVICES, MOST_DECISIONS, USUAL_DECISIONS = 100, 50, 10
PAYING = ("request_payment", "pay_402")
_EVALUATED_FOR = "Evaluation by allowance_mcp"


@dataclass(frozen=True, slots=True)
class Caller:
    """Whom a call is for: the API with the agent's own key, and the agent that the key is bound to."""

    api: AsyncAllowance
    agent_id: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The structured content of a tool's result; `is_error`: it is no success, and `what_to_do` says what follows."""

    content: Content
    is_error: bool = False


Tool = Callable[[Caller, Mapping[str, Any]], Awaitable[Answer]]


async def call(name: str, caller: Caller, arguments: Mapping[str, Any]) -> Answer:
    """Call a tool. Every failure is an answer that says what to do; `name` is one of `TOOLS`."""
    answer = await _call(name, caller, arguments)
    if name == "pay_402":  # the sentences are about request_payment, which this is in another form
        answer.content["what_to_do"] = answer.content["what_to_do"].replace("request_payment", name)
    return answer


async def _call(name: str, caller: Caller, arguments: Mapping[str, Any]) -> Answer:
    is_request = name in PAYING
    try:
        async with asyncio.timeout(LONGEST_CALL_S):
            return await TOOLS[name](caller, arguments)
    except BadArgument as error:
        return _failed({"code": "invalid_arguments", "what_to_do": f"Nothing was done. {error}"})
    except AllowanceError as error:
        return _refused(error, is_request=is_request)
    except TooManyAttempts:
        what_to_do = f"{holding_advice.TELL}: this payment was refused or has failed too often. Do not try again."
        return _failed({"code": "too_many_attempts", "what_to_do": what_to_do})
    except (ClientError, TimeoutError):
        what_to_do = advice.UNKNOWN if is_request else advice.on_refusal("unavailable")
        return _failed({"code": "unavailable", "what_to_do": what_to_do}, "unknown" if is_request else "failed")


async def request_payment(caller: Caller, arguments: Mapping[str, Any]) -> Answer:
    """Pay an intent once."""
    return await _pay(caller, read_purchase(arguments, with_reason=True))


async def pay_402(caller: Caller, arguments: Mapping[str, Any]) -> Answer:
    """Pay what a payee's 402 asks for once; the payee takes the money itself, with what is answered."""
    return await _pay(caller, read_demanded_purchase(arguments))


async def evaluate_payment(caller: Caller, arguments: Mapping[str, Any]) -> Answer:
    """Tell what a request would get now. Nothing is paid or written."""
    wanted = read_purchase(arguments, with_reason=False)
    evaluation = await caller.api.evaluate(service=wanted.service, amount=wanted.amount, reason=_EVALUATED_FOR)
    if evaluation.is_approved:
        what_to_do = "Nothing was paid. request_payment with the same service and amount would be approved now."
    elif evaluation.is_held:
        what_to_do = holding_advice.WOULD_BE_HELD
    else:
        what_to_do = f"Nothing was paid. {_advice_on(evaluation)}"
    return Answer({"status": "evaluated", **present_evaluation(evaluation), "what_to_do": what_to_do})


async def get_budget(caller: Caller, arguments: Mapping[str, Any]) -> Answer:
    """Read balance, spend and limits."""
    read_nothing(arguments)
    budget = await caller.api.budget()
    what_to_do = advice.on_limits(
        has_more=has_optional_limits(budget) or any(map(has_optional_limits, budget.levels)),
        has_levels=bool(budget.levels),
    )
    if budget.status == "paused":
        what_to_do = advice.on_refusal("agent_paused")
    elif any(level.status == "paused" for level in budget.levels):
        what_to_do = advice.PAUSED_ABOVE
    return Answer({"status": "ok", "budget": present_budget(budget), "what_to_do": what_to_do})


async def list_services(caller: Caller, arguments: Mapping[str, Any]) -> Answer:
    """List the payees that may be paid now."""
    read_nothing(arguments)
    found = await caller.api.services()
    services = [present_service(one) for one in found[:MOST_SERVICES]]
    is_all = len(found) <= MOST_SERVICES
    return Answer({"status": "ok", "services": services, "is_all": is_all, "what_to_do": advice.SERVICES})


async def get_payment(caller: Caller, arguments: Mapping[str, Any]) -> Answer:
    """Read a payment's state, at once or when a person has answered."""
    payment_id, wait_s = read_payment_and_wait(arguments, most_s=LONGEST_WAIT_S)
    payment = await caller.api.payment(payment_id)
    if payment.is_pending and wait_s:
        try:
            payment = await caller.api.wait_until_decided(payment_id, wait_s)
        except (ApprovalPending, ApprovalDeclined):
            payment = await caller.api.payment(payment_id)
    what_to_do = advice.OF_PAYMENT.get(payment.status, advice.OF_PAYMENT["approved"])
    return Answer({"status": "ok", "payment": present_payment(payment), "what_to_do": what_to_do})


async def list_decisions(caller: Caller, arguments: Mapping[str, Any]) -> Answer:
    """List the latest decisions about this agent's requests, newest first."""
    most = read_count(arguments, usual=USUAL_DECISIONS, most=MOST_DECISIONS)
    found, is_all = await _take(caller.api.logs(), most)
    decisions = [present_decision(one) for one in found]
    return Answer({"status": "ok", "decisions": decisions, "is_all": is_all, "what_to_do": advice.DECISIONS})


TOOLS: dict[str, Tool] = {
    one.__name__: one
    for one in (request_payment, pay_402, evaluate_payment, get_budget, list_services, get_payment, list_decisions)
}


async def _pay(caller: Caller, wanted: Purchase) -> Answer:
    outcome = await Intents(caller.api, caller.agent_id).pay(wanted)
    if isinstance(outcome, StillRefused):
        return _still_refused(outcome.evaluation)
    if isinstance(outcome, Waiting | Declined):
        return _tell_of_person(outcome, is_demand=wanted.requirements is not None)
    answer = _tell_payment(outcome)
    if outcome.header is None or outcome.payment is None or outcome.payment.status != "approved":
        return answer
    return Answer({**answer.content, "payment_signature": outcome.header, "what_to_do": advice.PRESENT})


def _tell_of_person(outcome: Waiting | Declined, *, is_demand: bool) -> Answer:
    content: Content = {"payment": present_payment(outcome.payment)}
    if isinstance(outcome, Waiting):
        what_to_do = holding_advice.WAITING_FOR_PAYEE if is_demand else holding_advice.WAITING
        return Answer({"status": "waiting_for_approval", **content, "what_to_do": what_to_do})
    refused = {"code": "approval_declined", "message": clean(outcome.payment.decline_reason)}
    return _failed({**refused, **content, "what_to_do": holding_advice.declined(outcome.payment.id)}, "refused")


def _tell_payment(outcome: Paid | AlreadyPaid) -> Answer:
    payment = outcome.payment
    content: Content = {} if payment is None else {"payment": present_payment(payment)}
    if not isinstance(outcome, AlreadyPaid):
        has_failed = payment is not None and payment.status == "failed"
        return Answer({"status": "paid", **content, "what_to_do": advice.FAILED if has_failed else advice.PAID})
    payment_id = None if payment is None else payment.id
    if outcome.is_misnamed:
        status = "already_paid" if payment else "nothing_paid"
        return Answer({"status": status, **content, "what_to_do": advice.no_such_predecessor(payment_id)})
    return Answer({"status": "already_paid", **content, "what_to_do": advice.already_paid(str(payment_id))})


def _still_refused(evaluation: Evaluation) -> Answer:
    content = {
        "code": evaluation.code,
        "rule": evaluation.rule,
        "message": clean(evaluation.message),
        **level_of(evaluation.raw),
        **figures_of(evaluation),
        "what_to_do": _advice_on(evaluation),
    }
    return _failed(content, "refused")


def _advice_on(evaluation: Evaluation) -> str:
    is_above = "level" in level_of(evaluation.raw)
    return advice.on_refusal(evaluation.code or "", evaluation.rule, evaluation.allowed_at, is_above=is_above)


def _refused(error: AllowanceError, *, is_request: bool) -> Answer:
    content = present_error(error)
    is_above = "level" in content
    what_to_do = advice.on_refusal(error.code, error.rule, content.get("allowed_at"), is_above=is_above)
    if is_request and error.retry == "same_key":
        # A rule is told under the agent's lock, so nothing is paid under this key. Without one nothing was evaluated,
        # for instance because another call for the same intent is being decided.
        if error.rule is not None and not error.was_unanswered:
            return _failed({**content, "what_to_do": what_to_do}, "nothing_paid")
        return _failed({**content, "what_to_do": advice.UNKNOWN}, "unknown")
    return _failed({**content, "what_to_do": what_to_do}, "refused" if is_request else "failed")


def _failed(content: Content, status: str = "failed") -> Answer:
    return Answer({"status": status, **content}, is_error=True)


async def _take(found: AsyncIterator[Any], most: int) -> tuple[list[Any], bool]:
    """Take the first of what is listed; tells whether that is all."""
    taken: list[Any] = []
    async for one in found:
        if len(taken) == most:
            return taken, False
        taken.append(one)
    return taken, True

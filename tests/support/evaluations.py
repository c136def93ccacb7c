"""Evaluations beside the decisions that follow them."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from foundation.kernel.errors import ContractError, IdempotencyConflict
from foundation.kernel.money import format_amount
from ledger.models import Result
from payments.api.evaluations import present_evaluation
from payments.deciding.evaluating import Evaluation, evaluate_payment
from payments.deciding.operations import Approval
from payments.deciding.requests import Environment, PaymentRequest
from payments.models import Settlement
from policy.rules import find_rule


def evaluate_or_refuse(request: PaymentRequest, environment: Environment) -> Evaluation | ContractError:
    """Evaluate a request without its key, as a client would before it chooses one."""
    try:
        return evaluate_payment(replace(request, idempotency_key=""), environment)
    except ContractError as error:
        return error


def is_of_an_earlier_decision(decided: Approval | ContractError) -> bool:
    if isinstance(decided, Approval):
        return decided.is_replay
    return decided.replayed or isinstance(decided, IdempotencyConflict)


def assert_decided_as_evaluated(evaluated: Evaluation | ContractError, decided: Approval | ContractError) -> None:
    """Assert that a decision is the one that was evaluated just before it, figure by figure."""
    if isinstance(evaluated, ContractError):
        assert isinstance(decided, ContractError)
        assert (decided.code, decided.message, decided.details) == (evaluated.code, evaluated.message, {})
        return
    shown = present_evaluation(evaluated)
    rules = {one["rule"]: one for one in shown["rules"]}
    if isinstance(decided, Approval) and decided.entry.result == Result.HELD:
        assert (shown["result"], shown["rule"], shown["code"]) == ("held", decided.entry.rule, None)
        assert shown["message"] == decided.entry.explanation["message"]
        return
    if isinstance(decided, Approval):
        assert (shown["result"], shown["rule"], shown["code"]) == ("approved", decided.entry.rule, None)
        assert all(one["passed"] for one in rules.values())
        assert evaluated.fee is not None
        assert evaluated.fee.at_most == Settlement.objects.get(payments=decided.entry.payment_id).most_cost
        _assert_headroom_is_left(decided.entry.explanation, rules)
        return
    told = decided.details
    assert (shown["result"], shown["rule"], shown["code"]) == ("blocked", told["rule"], decided.code)
    assert shown["message"] == decided.message
    assert shown["policyRevision"] == told["policyRevision"]
    assert shown["allowedAt"] == told.get("allowedAt")
    blocking = rules[shown["rule"]]
    assert (blocking["passed"], blocking["message"]) == (False, decided.message)
    for figure in ("limit", "spent", "requested", "remaining"):
        assert blocking[figure] == told.get(figure)
    before = list(rules)[: list(rules).index(shown["rule"])]
    # What one would hold is refused by another one behind it.
    assert all(rules[name]["passed"] or find_rule(name).holds for name in before)


def _assert_headroom_is_left(after: dict[str, Any], rules: dict[str, Any]) -> None:
    assert rules["balance_covers_payment"]["headroom"] == after["balance"]
    for rule, limit, spent in (
        ("under_daily_limit", "dailyLimit", "spentToday"),
        ("under_weekly_limit", "weeklyLimit", "spentThisWeek"),
    ):
        assert rules[rule]["headroom"] == format_amount(Decimal(after[limit]) - Decimal(after[spent]))

"""Shape what the API answers for a model: our own members first, what others wrote under `untrusted`.

Amounts are decimal strings as the API writes them, moments are its timestamps. Members have the names of the API, but
in snake_case, as the arguments of tools have.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Any

from allowance_client import Budget, BudgetLevel, Evaluation, LogEntry, PayeeLimits, Payment, PaymentState, Service
from allowance_client.errors import AllowanceError
from allowance_client.limits import OptionalLimits

from allowance_mcp.texts import LONGEST_NAME, UNTRUSTED, clean, clean_id

Content = dict[str, Any]
_FIGURES = {name: name for name in ("limit", "spent", "requested", "remaining")} | {"allowedAt": "allowed_at"}
_BUDGET = {
    "agentId": "agent_id",
    "status": "status",
    "asset": "asset",
    "balance": "balance",
    "heldForApproval": "held_for_approval",
    "spentToday": "spent_today",
    "spentThisWeek": "spent_this_week",
    "dailyLimit": "daily_limit",
    "weeklyLimit": "weekly_limit",
    "maxPerPayment": "max_per_payment",
}
_LIMITS = tuple(one.name for one in fields(OptionalLimits))
# What an optional limit still lets pass: the limit, and what it compares.
_LEFT = {
    "left_this_hour": ("hourly_limit", "spent_this_hour"),
    "left_this_month": ("monthly_limit", "spent_this_month"),
    "left_in_total": ("total_limit", "spent_in_total"),
    "payments_left_this_hour": ("payments_per_hour", "payments_this_hour"),
    "payments_left_today": ("payments_per_day", "payments_today"),
}
_PAYMENT = {
    "id": "id",
    "status": "status",
    "amount": "amount",
    "asset": "asset",
    "tx": "tx",
    "createdAt": "created_at",
    "settledAt": "settled_at",
    "failedAt": "failed_at",
    "escrowId": "escrow_id",
    "rule": "rule",
    "approvalExpiresAt": "approval_expires_at",
    "declinedAt": "declined_at",
}


def present_budget(budget: Budget) -> Content:
    """Shape a budget with those above it; `left_*` is what each limit still lets pass."""
    levels = {"levels": [_present_limits(level) for level in budget.levels]} if budget.levels else {}
    return _present_limits(budget) | levels


def _present_limits(budget: Budget | BudgetLevel) -> Content:
    left = {
        "left_today": max(budget.daily_limit - budget.spent_today, 0),
        "left_this_week": max(budget.weekly_limit - budget.spent_this_week, 0),
    }
    shown = _named(budget.raw, _BUDGET) | {name: f"{amount:f}" for name, amount in left.items()}
    return shown | _present_more(budget) if has_optional_limits(budget) else shown


def has_optional_limits(budget: Budget | BudgetLevel) -> bool:
    """Tell whether the policy has limits beside those that every policy has."""
    return any(getattr(budget, name) is not None for name in _LIMITS)


def _present_more(budget: Budget | BudgetLevel) -> Content:
    """Shape the optional limits that there are, what they compare, and what is left of them."""
    names = (*_LIMITS, *(spent for _, spent in _LEFT.values()))
    found = _named(budget.raw, {_member(name): name for name in names})
    for name, pair in _LEFT.items():
        limit, spent = (getattr(budget, one) for one in pair)
        if limit is not None and spent is not None:
            left = max(limit - spent, type(limit)(0))
            found[name] = f"{left:f}" if isinstance(left, Decimal) else left
    if budget.payee_limits is not None:
        found["payee_limits"] = {payee: _of_payee(one) for payee, one in budget.payee_limits.items() if clean_id(payee)}
    return found


def _of_payee(limits: PayeeLimits) -> Content:
    amounts = {"payment": limits.payment, "day": limits.day, "week": limits.week}
    return {name: None if amount is None else f"{amount:f}" for name, amount in amounts.items()}


def present_payment(payment: Payment | PaymentState) -> Content:
    """Shape a payment, as it was decided just now or as it is."""
    if isinstance(payment, PaymentState):
        message, untrusted = payment.decline_reason, {"reason": clean(payment.reason)}
    else:
        message, untrusted = payment.message, {}
    said = {"message": clean(message)} if message else {}
    return _named(payment.raw, _PAYMENT) | said | _with_service(payment.service, untrusted)


def present_service(service: Service) -> Content:
    """Shape a payee. Its name is chosen by whoever registered it."""
    return {"id": clean_id(service.id), "asset": service.asset, UNTRUSTED: {"name": clean(service.name, LONGEST_NAME)}}


def present_decision(entry: LogEntry) -> Content:
    """Shape an entry of the log."""
    own = {
        "log_id": entry.id,
        "created_at": entry.raw["createdAt"],
        "result": entry.result,
        "rule": entry.rule,
        "amount": entry.raw["amount"],
        "asset": entry.asset,
        "payment_id": entry.payment_id,
    }
    return own | _with_service(entry.service, {"reason": clean(entry.reason)})


def present_evaluation(evaluation: Evaluation) -> Content:
    """Shape the decision that a request would get now, with what each rule still lets pass."""
    rules = [
        {"rule": one.get("rule"), "passed": one.get("passed"), "headroom": one.get("headroom"), **level_of(one)}
        for one in _objects(evaluation.raw.get("rules"))
    ]
    return {
        "would_be": evaluation.result,
        "code": evaluation.code,
        "rule": evaluation.rule,
        "message": clean(evaluation.message),
        **level_of(evaluation.raw),
        **figures_of(evaluation),
        "rules": rules,
    }


def figures_of(evaluation: Evaluation) -> Content:
    """Take the figures of the rule that decides."""
    deciding = [one for one in _objects(evaluation.raw.get("rules")) if one.get("rule") == evaluation.rule]
    found = _named(deciding[0], _FIGURES) if deciding else {}
    return found | {"allowed_at": evaluation.raw.get("allowedAt")}


def level_of(raw: Mapping[str, Any]) -> Content:
    """Name the agent above this one whose limit or status it is; nothing if it is this one's own."""
    level = raw.get("level")
    return {"level": clean_id(level.get("agentId"))} if isinstance(level, Mapping) else {}


def present_error(error: AllowanceError) -> Content:
    """Shape a refusal or another error of the API, with its figures."""
    raw = error.refusal.raw
    content: Content = {"code": clean(error.code, 64), "rule": error.rule, "message": clean(error.message)}
    content |= level_of(raw) | _named(raw, _FIGURES)
    if error.log_id:
        content["log_id"] = clean_id(error.log_id)
    if error.retry_after_s is not None:
        content["retry_after_s"] = error.retry_after_s
    fields = _objects(raw.get("fields"))
    if fields:
        content["fields"] = [{name: clean(one.get(name)) for name in ("param", "message")} for one in fields]
    return content


def _with_service(service: str, untrusted: Content) -> Content:
    """Add a service's id; what is none, because a request named it so, is somebody's text."""
    known = clean_id(service)
    return {"service": known, UNTRUSTED: untrusted if known else {**untrusted, "service": clean(service, LONGEST_NAME)}}


def _named(raw: Mapping[str, Any], names: Mapping[str, str]) -> Content:
    return {name: raw[member] for member, name in names.items() if raw.get(member) is not None}


def _member(name: str) -> str:
    """Write a name as the API does."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, Iterable) else []

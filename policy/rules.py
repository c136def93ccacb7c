"""The policy, as pure functions: facts in, a decision out.

A rule is a value: its name, the error that it refuses with, and a check that says what speaks against a payment. Rules
are asked in the order of `RULES`; the first that objects blocks and names the decision, and if none does the last one
names it. To add a rule, write its check and put it into the tuple: API, OpenAPI document and console are made from it.
Windows are half-open, `(now - 24 h, now]` and `(now - 7 d, now]`; a limit is crossed by `spent + amount > limit`.
Source: docs/interface-specification.md, "Errors" and "Limits"; docs/contract.md, "Rules and their names".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal, localcontext
from typing import Any

from allowance.kernel.errors import (
    AgentPaused,
    BudgetExceeded,
    ContractError,
    InvalidRequest,
    PolicySignerUnavailable,
    ServiceNotApproved,
)
from allowance.kernel.money import EXACT, format_amount
from policy.facts import Facts, PayeeFacts

DAY, WEEK = timedelta(hours=24), timedelta(days=7)
NOT_ON_THE_LIST = "The agent's policy does not allow this service."  # the log is searched for it, see `ledger.preview`


@dataclass(frozen=True, slots=True)
class Wait:
    """The same payment fits a limit once the spend within the rolling `window` is down to `most_spent`."""

    window: timedelta
    most_spent: Decimal


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a rule decided as it did: a sentence, and the amounts it compared, where it compares amounts.

    `waits_for`: what has to come to pass before the same payment is not objected to; empty: waiting does not help.
    """

    message: str
    limit: Decimal | None = None
    spent: Decimal | None = None
    requested: Decimal | None = None
    remaining: Decimal | None = None
    waits_for: tuple[Wait, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the policy; `name` is its name in the API, in the log and in the console.

    `check` returns None if the rule has nothing against a payment. `field`: the member of the request that is at fault.
    `examples`: what is different from `EXAMPLE_FACTS` where the rule refuses, for the OpenAPI document.
    """

    name: str
    refuses_with: type[ContractError]
    check: Callable[[Facts], Explanation | None]
    field: str | None = None
    examples: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome: approved or blocked, by which rule, and why."""

    is_approved: bool
    rule: Rule
    explanation: Explanation


def _agent_is_active(facts: Facts) -> Explanation | None:
    return None if facts.agent_is_active else Explanation("The agent is paused: all its payments fail closed.")


def _service_is_approved(facts: Facts) -> Explanation | None:
    if facts.payee is None:
        return Explanation("No service of this id is registered.")
    if not facts.payee.is_approved:
        return Explanation("The service, as it is registered now, is not approved.")
    if facts.allowed_services is not None and facts.payee.id not in facts.allowed_services:
        return Explanation(NOT_ON_THE_LIST)
    return None


def _asset_matches(facts: Facts) -> Explanation | None:
    if facts.asset != facts.agent_asset:
        return Explanation(f"The allowance is in {facts.agent_asset}, not in {facts.asset}.")
    if facts.payee is not None and facts.asset != facts.payee.asset:
        return Explanation(f"The service is paid in {facts.payee.asset}, not in {facts.asset}.")
    return None


def _above_minimum(facts: Facts) -> Explanation | None:
    """Block an amount below the least that is paid in this asset on the payee's chain: it costs more than it moves."""
    if facts.minimum is None or facts.amount >= facts.minimum:
        return None
    return Explanation(
        f"The least that is paid to this service is {format_amount(facts.minimum)} {facts.asset}.",
        limit=facts.minimum,
        requested=facts.amount,
    )


def _balance_covers_payment(facts: Facts) -> Explanation | None:
    if facts.amount <= facts.balance:
        return None
    return Explanation(
        f"The balance is {format_amount(facts.balance)} {facts.asset}.",
        requested=facts.amount,
        remaining=facts.balance,
    )


def _under_weekly_limit(facts: Facts) -> Explanation | None:
    return check_window(facts, "weekly", WEEK, limit=facts.weekly_limit, spent=facts.spent_this_week)


def _under_daily_limit(facts: Facts) -> Explanation | None:
    return check_window(facts, "daily", DAY, limit=facts.daily_limit, spent=facts.spent_today)


def _under_max_payment(facts: Facts) -> Explanation | None:
    if facts.amount <= facts.max_per_payment:
        return None
    return Explanation(
        f"A single payment may not exceed {format_amount(facts.max_per_payment)} {facts.asset}.",
        limit=facts.max_per_payment,
        requested=facts.amount,
        remaining=facts.max_per_payment,
    )


def check_window(facts: Facts, name: str, window: timedelta, *, limit: Decimal, spent: Decimal) -> Explanation | None:
    """Object to what would lift the spend within a rolling window above a limit, and say what it has to wait for."""
    if spent + facts.amount <= limit:
        return None
    return Explanation(
        f"The {name} limit is {format_amount(limit)} {facts.asset}, of which {format_amount(spent)} is spent.",
        limit=limit,
        spent=spent,
        requested=facts.amount,
        remaining=max(limit - spent, Decimal(0)),
        waits_for=(Wait(window, limit - facts.amount),) if facts.amount <= limit else (),
    )


RULES: tuple[Rule, ...] = (
    Rule("agent_active", AgentPaused, _agent_is_active, examples=({"agent_is_active": False},)),
    Rule(
        "service_approved",
        ServiceNotApproved,
        _service_is_approved,
        examples=(
            {"payee": None},
            {"payee": PayeeFacts(id="market-data", is_approved=False, asset="USDC")},
            {"allowed_services": frozenset({"news"})},
        ),
    ),
    Rule("asset_matches", InvalidRequest, _asset_matches, field="asset", examples=({"asset": "SOL"},)),
    Rule("above_minimum", InvalidRequest, _above_minimum, field="amount", examples=({"amount": Decimal("0.001")},)),
    Rule("balance_covers_payment", BudgetExceeded, _balance_covers_payment, examples=({"balance": Decimal("0.20")},)),
    Rule("under_weekly_limit", BudgetExceeded, _under_weekly_limit, examples=({"spent_this_week": Decimal("199.9")},)),
    Rule("under_daily_limit", BudgetExceeded, _under_daily_limit, examples=({"spent_today": Decimal("49.90")},)),
    Rule("under_max_payment", BudgetExceeded, _under_max_payment, examples=({"amount": Decimal(12)},)),
)
# No question of facts: whoever tries to sign what all rules let pass finds out.
SIGNER_RULE = Rule("policy_signer_available", PolicySignerUnavailable, lambda _facts: None)

_RULE_OF_NAME = {rule.name: rule for rule in (*RULES, SIGNER_RULE)}
RULE_NAMES = tuple(_RULE_OF_NAME)


def find_rule(name: str) -> Rule:
    """Find the rule that a log entry names."""
    return _RULE_OF_NAME[name]


def evaluate(facts: Facts, rules: Sequence[Rule] = RULES) -> Decision:
    """Judge one payment. Total: every set of facts has a decision."""
    with localcontext(EXACT):
        objections = [(rule, objection) for rule in rules if (objection := rule.check(facts)) is not None]
    if not objections:
        return Decision(is_approved=True, rule=rules[-1], explanation=Explanation("Every rule passed."))
    rule, why = objections[0]
    waits_for = _merge_waits([objection for _, objection in objections])
    return Decision(is_approved=False, rule=rule, explanation=replace(why, waits_for=waits_for))


def _merge_waits(objections: Sequence[Explanation]) -> tuple[Wait, ...]:
    """Wait for what all objections wait for; for nothing if there is one that time does not remove."""
    if not all(objection.waits_for for objection in objections):
        return ()
    return tuple(wait for objection in objections for wait in objection.waits_for)

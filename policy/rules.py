"""The policy, as pure functions: facts in, a decision out.

A rule is a value: its name, the error that it refuses with, and a check that says what speaks against a payment. Rules
are asked in the order of `RULES`; the first that objects blocks and names the decision, and if none does the last one
names it. To add a rule, write its check, and the amounts that it compares, and put it into the tuple: API, OpenAPI
document and console are made from it.
Source: docs/interface-specification.md, "Errors" and "Limits"; docs/contract.md, "Rules and their names".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from allowance.kernel.money import EXACT
from policy import objections
from policy.facts import Facts, PayeeFacts
from policy.objections import Explanation, Figures, Wait


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the policy; `name` is its name in the API, in the log and in the console.

    `check` returns None if the rule has nothing against a payment. `figures`: the amounts that it compares, whatever it
    decides. `field`: the member of the request that is at fault. `examples`: what is different from `EXAMPLE_FACTS`
    where the rule refuses, for the OpenAPI document.
    """

    name: str
    refuses_with: type[ContractError]
    check: Callable[[Facts], Explanation | None]
    figures: Callable[[Facts], Figures] = lambda _facts: Figures()
    field: str | None = None
    examples: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome: approved or blocked, by which rule, and why. `objections` are those of all rules, by their names."""

    is_approved: bool
    rule: Rule
    explanation: Explanation
    objections: Mapping[str, Explanation] = field(default_factory=dict)


RULES: tuple[Rule, ...] = (
    Rule("agent_active", AgentPaused, objections.agent_is_active, examples=({"agent_is_active": False},)),
    Rule(
        "service_approved",
        ServiceNotApproved,
        objections.service_is_approved,
        examples=(
            {"payee": None},
            {"payee": PayeeFacts(id="market-data", is_approved=False, asset="USDC")},
            {"allowed_services": frozenset({"news"})},
        ),
    ),
    Rule("asset_matches", InvalidRequest, objections.asset_matches, field="asset", examples=({"asset": "SOL"},)),
    Rule(
        "above_minimum",
        InvalidRequest,
        objections.above_minimum,
        objections.of_minimum,
        field="amount",
        examples=({"amount": Decimal("0.001")},),
    ),
    Rule(
        "balance_covers_payment",
        BudgetExceeded,
        objections.balance_covers_payment,
        objections.of_balance,
        examples=({"balance": Decimal("0.20")},),
    ),
    Rule(
        "under_weekly_limit",
        BudgetExceeded,
        objections.under_weekly_limit,
        objections.of_week,
        examples=({"spent_this_week": Decimal("199.9")},),
    ),
    Rule(
        "under_daily_limit",
        BudgetExceeded,
        objections.under_daily_limit,
        objections.of_day,
        examples=({"spent_today": Decimal("49.90")},),
    ),
    Rule(
        "under_max_payment",
        BudgetExceeded,
        objections.under_max_payment,
        objections.of_payment,
        examples=({"amount": Decimal(12)},),
    ),
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
        found = [(rule, objection) for rule in rules if (objection := rule.check(facts)) is not None]
    if not found:
        return Decision(is_approved=True, rule=rules[-1], explanation=Explanation("Every rule passed."))
    rule, why = found[0]
    waits_for = _merge_waits([objection for _, objection in found])
    return Decision(
        is_approved=False,
        rule=rule,
        explanation=replace(why, waits_for=waits_for),
        objections={one.name: objection for one, objection in found},
    )


def _merge_waits(found: Sequence[Explanation]) -> tuple[Wait, ...]:
    """Wait for what all objections wait for; for nothing if there is one that time does not remove."""
    if not all(objection.waits_for for objection in found):
        return ()
    return tuple(wait for objection in found for wait in objection.waits_for)

"""The policy, as pure functions: facts in, a decision out.

A rule is a value that carries all of itself. Rules are asked in the order of `RULES`; the first that objects blocks and
names the decision, and if none does the last one names it. To add a rule, write its check in `objections.py` and put
it into the tuple; one that a policy need not have is in `more_objections.py` and `more_rules.py`. The API and its
document, log, console, pictures and previews are made from it.
Source: docs/interface-specification.md, "Errors" and "Limits"; docs/contract.md, "Rules and their names".
"""

from decimal import Decimal
from functools import lru_cache

from foundation.kernel.errors import (
    AgentPaused,
    BudgetExceeded,
    InvalidRequest,
    PolicySignerUnavailable,
    ServiceNotApproved,
    ServiceNotPayable,
)
from policy import objections
from policy.facts import UNAPPROVED_PAYEE, UNPAYABLE_PAYEES
from policy.holding_rules import HOLDING, PERSON_RULE
from policy.more_limits import MoreLimits
from policy.more_rules import NARROWER, OF_TIME, WIDER
from policy.rule import Figures, Rule, Words

# An evaluation tells no more of a payee that may not be paid; a preview asks again with the payee as it is now.
SERVICE_RULE = Rule(
    "service_approved",
    ServiceNotApproved,
    objections.service_is_approved,
    Words("The payee is approved and allowed", "The payee is not approved or not allowed", "payee not approved"),
    varies=True,
    record=objections.TAGS,
    examples=(
        {"payee": None},
        {"payee": UNAPPROVED_PAYEE},
        {"allowed_services": frozenset({"news"})},
        {"more": MoreLimits(allowed_tags=("data",))},
    ),
)
_FIRST: tuple[Rule, ...] = (
    Rule(
        "agent_active",
        AgentPaused,
        objections.agent_is_active,
        Words("The agent is active", "The agent is paused", "agent paused"),
        varies=False,
        is_of_levels=True,
        examples=({"agent_is_active": False},),
    ),
    SERVICE_RULE,
    Rule(
        "service_payable",
        ServiceNotPayable,
        objections.service_is_payable,
        Words("The payee can be paid so", "The payee cannot be paid so", "payee cannot be paid"),
        varies=False,
        figures=objections.of_obstacle,
        examples=tuple({"payee": payee} for payee in UNPAYABLE_PAYEES),
    ),
    Rule(
        "asset_matches",
        InvalidRequest,
        objections.asset_matches,
        Words("The asset fits the agent and the payee", "The asset does not fit", "wrong asset"),
        varies=False,
        field="asset",
        examples=({"asset": "SOL"},),
    ),
    Rule(
        "above_minimum",
        InvalidRequest,
        objections.above_minimum,
        Words("At least the smallest payment", "Below the smallest payment", "below the minimum"),
        varies=False,
        figures=lambda facts: Figures(limit=facts.minimum, requested=facts.amount),
        field="amount",
        examples=({"amount": Decimal("0.001")},),
    ),
    Rule(
        "balance_covers_payment",
        BudgetExceeded,
        objections.balance_covers_payment,
        Words("The balance covers it", "The balance does not cover it", "balance too small"),
        varies=False,
        figures=lambda facts: Figures(requested=facts.amount, remaining=facts.balance),
        record=objections.BALANCE,
        examples=({"balance": Decimal("0.20")},),
    ),
)
_WINDOWS = (
    Rule(
        "under_weekly_limit",
        BudgetExceeded,
        objections.WEEKLY.check,
        Words("Within the limit of 7 days", "Above the limit of 7 days", "weekly limit"),
        varies=True,
        figures=objections.WEEKLY.figures,
        record=objections.WEEKLY.record,
        examples=({"spent_this_week": Decimal("199.9")},),
    ),
    Rule(
        "under_daily_limit",
        BudgetExceeded,
        objections.DAILY.check,
        Words("Within the limit of 24 hours", "Above the limit of 24 hours", "daily limit"),
        varies=True,
        figures=objections.DAILY.figures,
        record=objections.DAILY.record,
        examples=({"spent_today": Decimal("49.90")},),
    ),
)
# The last of all names the decision that no rule objects to.
_LAST = Rule(
    "under_max_payment",
    BudgetExceeded,
    objections.under_max_payment,
    Words("Within the limit per payment", "Above the limit per payment", "limit per payment"),
    varies=True,
    figures=lambda facts: Figures(facts.max_per_payment, requested=facts.amount, remaining=facts.max_per_payment),
    record=objections.PER_PAYMENT,
    examples=({"amount": Decimal(12)},),
)
RULES: tuple[Rule, ...] = (*_FIRST, *OF_TIME, *WIDER, *_WINDOWS, *NARROWER, *HOLDING, _LAST)
# No question of facts: whoever tries to sign what all rules let pass finds out.
SIGNER_RULE = Rule(
    "policy_signer_available",
    PolicySignerUnavailable,
    lambda _facts: None,
    Words("The policy signer signs it", "It could not be signed", "could not be signed"),
    varies=False,
)

_RULE_OF_NAME = {rule.name: rule for rule in (*RULES, PERSON_RULE, SIGNER_RULE)}
RULE_NAMES = tuple(_RULE_OF_NAME)


def find_rule(name: str) -> Rule:
    """Find the rule that a log entry names."""
    return _RULE_OF_NAME[name]


def words_of_refusal(name: str) -> Words:
    """Say what it means that a rule refused; of a rule that only another release has, its name says it."""
    rule = _RULE_OF_NAME.get(name)
    return rule.words if rule else Words(name, name, name)


def rules_in_force(more: MoreLimits) -> tuple[Rule, ...]:
    """Return the rules that a policy has, in their order."""
    return _find_rules(more.fields_given)


@lru_cache(maxsize=1024)
def _find_rules(fields_given: frozenset[str]) -> tuple[Rule, ...]:
    return tuple(rule for rule in RULES if rule.is_in(fields_given))


def rules_for_approved(more: MoreLimits) -> tuple[Rule, ...]:
    """Return the rules that a policy has for what a person has approved."""
    return tuple(rule for rule in rules_in_force(more) if not rule.holds)

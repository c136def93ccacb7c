"""Ask the rules about one payment: those of the agent that pays, and those of all agents above it. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import localcontext

from foundation.kernel.money import EXACT
from policy.facts import Facts, Level
from policy.more_limits import MoreLimits
from policy.rule import Decision, Explanation, Figures, Rule, Wait, WaitUntil
from policy.rules import RULE_NAMES, RULES, rules_in_force


def rules_of_levels(more: MoreLimits) -> tuple[Rule, ...]:
    """Return the rules that a policy has for what those below its agent pay."""
    return tuple(rule for rule in rules_in_force(more) if rule.judges_levels)


def ask_rules(facts: Facts, asked: Callable[[MoreLimits], Sequence[Rule]] = rules_in_force) -> Decision:
    """Judge one payment, by all rules that a policy has or those that are `asked`; those above judge it, too.

    What a rule holds is held only if no other rule refuses it. Total: every set of facts has a decision.
    """
    rules = asked(facts.more)
    with localcontext(EXACT):
        found = [(rule, objection) for rule in rules if (objection := rule.check(facts)) is not None]
        if facts.levels:
            found = sorted([*found, *_ask_levels(facts.levels, asked)], key=_place_of)
        if not found:
            return Decision(is_approved=True, rule=rules[-1], explanation=Explanation("Every rule passed."))
        refusing = [one for one in found if not one[0].holds]
        rule, why = (refusing or found)[0]
        figures = rule.figures(facts if why.level is None else why.level.facts)
    waits_for = _merge_waits([objection for _, objection in refusing])
    objections: dict[str, Explanation] = {}
    for one, objection in found:
        objections.setdefault(one.name, objection)  # the nearest agent's
    return Decision(
        is_approved=False,
        rule=rule,
        explanation=replace(why, figures=figures, waits_for=waits_for),
        objections=objections,
        is_held=not refusing,
    )


def _place_of(found: tuple[Rule, Explanation]) -> int:
    return RULE_NAMES.index(found[0].name)


def _ask_levels(
    levels: Sequence[Level], asked: Callable[[MoreLimits], Sequence[Rule]]
) -> Iterator[tuple[Rule, Explanation]]:
    """Ask the rules of the agents above the one that pays, the parent first."""
    for level in levels:
        for rule in asked(level.facts.more):
            if rule.judges_levels and (objection := rule.check(level.facts)) is not None:
                waits = tuple(
                    replace(wait, level=level.agent) if isinstance(wait, Wait) else wait for wait in objection.waits_for
                )
                message = f"Budget of {level.agent}, above this one: {objection.message}"
                yield rule, replace(objection, message=message, waits_for=waits, level=level)


def figures_of(rule: Rule, facts: Facts, objection: Explanation | None = None) -> tuple[Figures, Level | None]:
    """Return what a rule compares, and at which level above the agent; None: at its own.

    Of those that ask the rule, the agent and all above it: whose `objection` it is, else where the least remains.
    """
    asked: list[Level | None] = [None]
    if objection is not None:
        asked = [objection.level]
    elif rule.judges_levels:
        asked += [level for level in facts.levels if rule.is_in(level.facts.more.fields_given)]
    found = [(rule.figures(facts if level is None else level.facts), level) for level in asked]
    telling = [one for one in found if one[0].remaining is not None]
    return min(telling, key=lambda one: one[0].remaining or 0, default=found[0])


def rules_of_all(facts: Facts) -> tuple[Rule, ...]:
    """Return the rules that the policies of an agent and of all above it have, in their order."""
    given = [facts.more.fields_given, *(level.facts.more.fields_given for level in facts.levels)]
    return tuple(rule for rule in RULES if any(rule.is_in(fields) for fields in given))


def find_refusing(facts: Facts, rules: Sequence[Rule]) -> Rule | None:
    """Find the first rule that objects, as `ask_rules` does, and nothing else: for very many payments of the past."""
    with localcontext(EXACT):
        return next((rule for rule in rules if rule.check(facts) is not None), None)


def _merge_waits(found: Sequence[Explanation]) -> tuple[Wait | WaitUntil, ...]:
    """Wait for what all objections wait for; for nothing if there is one that time does not remove."""
    waits = tuple(wait for objection in found for wait in objection.waits_for)
    return waits if all(objection.waits_for for objection in found) else ()

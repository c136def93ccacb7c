"""Evaluate a payment request without deciding it: the same facts and rules; nothing is locked, signed or written.

Source: docs/contract.md, "Evaluate".
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import localcontext
from functools import partial
from typing import Any

from chains.port import ChainUnavailable, SignerUnavailable
from foundation.groups import within_group_of
from foundation.kernel.money import EXACT
from foundation.kernel.times import utc_now
from payments.deciding.entries import explain_refusal
from payments.deciding.facts import facts_of
from payments.deciding.judging import approve_or_refuse, check_clocks, find_moments
from payments.deciding.preparation import Fee, rehearse_payment
from payments.deciding.reading import read_facts
from payments.deciding.requests import Environment, PaymentRequest
from payments.deciding.running import DecideAgain
from policy.asking import ask_rules
from policy.facts import Facts
from policy.rule import Decision
from policy.rules import SERVICE_RULE


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The decision that a request would get now.

    `refusal` is its explanation in the form of the log, None for an approval. `fee` is None where it cannot be known.
    """

    facts: Facts
    decision: Decision
    refusal: dict[str, Any] | None
    fee: Fee | None
    policy_revision: int
    evaluated_at: datetime


def evaluate_payment(request: PaymentRequest, environment: Environment) -> Evaluation:
    """Evaluate one payment request. What is decided meanwhile is not seen, and not held back.

    Raises:
        AgentNotFound: there is no such agent.
        PolicySignerUnavailable: clocks disagree, so nothing can be evaluated.
    """
    with within_group_of(request.agent_id), localcontext(EXACT):
        asked_at = environment.now or utc_now()
        known = read_facts(request, now=environment.now)
        check_clocks(request, known, asked_at, environment.now or utc_now())
        facts = facts_of(request, known, environment)
        rehearse = partial(rehearse_payment, request, known, environment)
        decision, fee = approve_or_refuse(ask_rules(facts), rehearse)
        refusal = None
        if SERVICE_RULE.name in decision.objections:
            facts, decision = _blind(facts, decision)
        if decision.is_refused:
            refusal = explain_refusal(decision, facts, find_moments(request, known))
        if not decision.is_approved and SERVICE_RULE.name not in decision.objections:
            with suppress(ChainUnavailable, SignerUnavailable, DecideAgain):
                fee = rehearse()
    return Evaluation(facts, decision, refusal, fee, known.agent.policy_revision, known.decided_at)


def _blind(facts: Facts, decision: Decision) -> tuple[Facts, Decision]:
    """Leave out what only those learn of a payee who may pay it: its asset, its chain, the least that it is paid.

    So is what the agents above compare: some of it is what others have paid to this payee.
    """
    known = replace(facts, payee=None, minimum=None, levels=())
    objections = {**ask_rules(known).objections, SERVICE_RULE.name: decision.objections[SERVICE_RULE.name]}
    return known, replace(decision, objections=objections)

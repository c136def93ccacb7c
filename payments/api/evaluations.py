"""`POST /v1/payments/evaluate`: the decision that a payment request would get now."""

from decimal import localcontext
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from chains.catalogue import find_chain
from foundation.api.views import ApiViewSet
from foundation.kernel.money import EXACT, format_amount
from foundation.kernel.times import format_instant
from ledger.models import Result
from payments.api.payment_requests import PAYMENT_REQUEST, read_evaluation
from payments.deciding.entries import level_of, result_of, write_figures
from payments.deciding.evaluating import Evaluation, evaluate_payment
from payments.deciding.preparation import Fee
from payments.environment import payment_environment
from policy.asking import figures_of, rules_of_all
from policy.authentication import caller_of
from policy.rule import Figures, Rule, write_figure
from policy.rules import RULE_NAMES, SIGNER_RULE
from policy.serializers import LevelSerializer


class EvaluationViewSet(ApiViewSet):
    required_scope = "payments"
    body_form = PAYMENT_REQUEST

    def create(self, request: Request) -> Response:
        """Evaluate a payment request, and decide nothing."""
        asked = read_evaluation(self.body, caller_of(request))
        return Response(present_evaluation(evaluate_payment(asked, payment_environment())))


class EvaluatedRuleSerializer(serializers.Serializer):
    """One rule, and what it says of the payment."""

    rule = serializers.ChoiceField(choices=RULE_NAMES)
    passed = serializers.BooleanField(allow_null=True, help_text="Null: not asked, since an earlier rule refuses.")
    message = serializers.CharField(allow_null=True, help_text="What speaks against the payment. Null: nothing.")
    limit = serializers.CharField(allow_null=True, help_text="The limit that the rule compares with.")
    spent = serializers.CharField(allow_null=True, help_text="What the window holds already.")
    requested = serializers.CharField(allow_null=True, help_text="The amount of this payment.")
    remaining = serializers.CharField(allow_null=True, help_text="The most that the rule lets pass now.")
    headroom = serializers.CharField(allow_null=True, help_text="What would remain after this payment.")
    level = LevelSerializer(required=False, help_text="Whose message and figures these are. Absent: the agent's own.")


class FeeSerializer(serializers.Serializer):
    """What a payment costs in gas. The operator pays it, not the allowance."""

    chain = serializers.CharField(help_text="CAIP-2.")
    coin = serializers.CharField(help_text="The chain's own coin.")
    atMost = serializers.CharField(help_text="In units of the coin.")  # noqa: N815 - JSON name


class EvaluationSerializer(serializers.Serializer):
    """Response of `POST /v1/payments/evaluate`."""

    result = serializers.ChoiceField(choices=Result.values)
    rule = serializers.ChoiceField(choices=RULE_NAMES, help_text="The rule that decides.")
    message = serializers.CharField(help_text="A sentence for people.")
    code = serializers.CharField(allow_null=True, help_text="The code of the refusal. Null: it would not be refused.")
    allowedAt = serializers.CharField(  # noqa: N815 - JSON name
        allow_null=True, help_text="When the same payment would fit. Null: now, or waiting does not help."
    )
    rules = EvaluatedRuleSerializer(many=True, help_text="Every rule, in the order in which they are asked.")
    fee = FeeSerializer(allow_null=True, help_text="Null: it cannot be known.")
    policyRevision = serializers.CharField()  # noqa: N815 - JSON name
    evaluatedAt = serializers.CharField()  # noqa: N815 - JSON name
    level = LevelSerializer(required=False, help_text="Whose rule decides. Absent: the agent's own.")


def present_evaluation(evaluation: Evaluation) -> dict[str, Any]:
    """Shape an evaluation. Source: docs/contract.md, "Evaluate"."""
    decision = evaluation.decision
    refusal = evaluation.refusal or {}
    with localcontext(EXACT):
        rules = [_present_rule(rule, evaluation) for rule in (*rules_of_all(evaluation.facts), SIGNER_RULE)]
    return {
        "result": result_of(decision).value,
        "rule": decision.rule.name,
        "message": decision.explanation.message,
        "code": decision.rule.refuses_with.code if decision.is_refused else None,
        "allowedAt": refusal.get("allowedAt"),
        "rules": rules,
        "fee": None if evaluation.fee is None else _present_fee(evaluation.fee),
        "policyRevision": f"polrev_{evaluation.policy_revision}",
        "evaluatedAt": format_instant(evaluation.evaluated_at),
        **level_of(decision.explanation.level),
    }


def _present_rule(rule: Rule, evaluation: Evaluation) -> dict[str, Any]:
    decision = evaluation.decision
    objection = decision.objections.get(rule.name)
    figures, level = figures_of(rule, evaluation.facts, objection)
    if rule is SIGNER_RULE:
        is_asked = decision.is_approved or decision.rule is SIGNER_RULE
        passed = decision.is_approved if is_asked else None
        message = decision.explanation.message if is_asked and not decision.is_approved else None
    else:
        passed, message = objection is None, None if objection is None else objection.message
    written = {**dict.fromkeys(Figures._fields), **write_figures(figures)}
    shown = {"rule": rule.name, "passed": passed, "message": message, **written, "headroom": _headroom(figures)}
    return {**shown, **level_of(level)}


def _headroom(figures: Figures) -> str | None:
    if figures.remaining is None or figures.requested is None:
        return None
    return write_figure(max(figures.remaining - figures.requested, type(figures.remaining)(0)))


def _present_fee(fee: Fee) -> dict[str, str]:
    chain = find_chain(fee.chain)
    return {"chain": fee.chain, "coin": "" if chain is None else chain.coin, "atMost": format_amount(fee.at_most)}

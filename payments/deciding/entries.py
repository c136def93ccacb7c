"""Convert a decision into its log entry: what the entry explains, and its seal."""

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from foundation.kernel.canonical import canonical_json
from foundation.kernel.errors import BudgetExceeded
from foundation.kernel.ids import new_id, time_of
from foundation.kernel.money import format_amount
from foundation.kernel.times import format_instant
from ledger.models import LogEntry, Result
from ledger.receipts import FIRST_PREVIOUS_HASH, receipt, request_digest, seal
from payments.deciding.known import Known
from payments.deciding.requests import PaymentRequest, Prepared
from policy.facts import Facts
from policy.rule import Figures
from policy.rules import RULES, SIGNER_RULE, Decision
from policy.signer import PolicySigner

FindMoment = Callable[[timedelta, Decimal], datetime]


def explain_approval(decision: Decision, facts: Facts, recipient: str) -> dict[str, Any]:
    """Explain an approval in the form of the log, with what each rule records; `recipient` is CAIP-10."""
    records = [rule.record for rule in RULES if rule.record is not None]
    amounts = {name: format_amount(amount) for record in records for name, amount in record.of(facts).items()}
    return {"message": decision.explanation.message, "recipient": recipient, **amounts}


def explain_refusal(decision: Decision, find_moment: FindMoment) -> dict[str, Any]:
    """Explain a refusal in the form of the log: a sentence, and the compared amounts as decimal strings.

    `find_moment` finds the moment at which the spending in a window has fallen to an amount.
    """
    why = decision.explanation
    written: dict[str, Any] = {"message": why.message, **write_figures(why.figures)}
    if decision.rule.refuses_with is BudgetExceeded:
        moments = [find_moment(wait.window, wait.most_spent) for wait in why.waits_for]
        written["allowedAt"] = format_instant(max(moments)) if moments else None
    return written


def write_figures(figures: Figures) -> dict[str, str]:
    """Write the amounts that a rule compares as decimal strings; those that it has not are left out."""
    return {name: format_amount(amount) for name, amount in figures._asdict().items() if amount is not None}


def make_entry(
    request: PaymentRequest,
    known: Known,
    decision: Decision,
    explanation: dict[str, Any],
    *,
    prepared: Prepared | None,
    signer: PolicySigner,
) -> LogEntry:
    """Make the sealed log entry of a decision, for an approval with the prepared payment; saves nothing.

    Raises:
        SignerUnavailable: the receipt could not be signed.
    """
    is_final = decision.rule is not SIGNER_RULE
    digest = request_digest(request.idempotency_key, request.fingerprint)
    if is_final:
        explanation["request"] = digest
    entry = LogEntry(
        id=new_id("log", known.decided_at, after=_id_before(known)),
        agent_id=request.agent_id,
        service=request.service,
        amount=request.amount_text,
        asset=request.asset.value,
        result=Result.APPROVED.value if decision.is_approved else Result.BLOCKED.value,
        rule=decision.rule.name,
        created_at=known.decided_at,
        reason=request.reason,
        metadata_json=request.metadata_json,
        policy_revision=known.agent.policy_revision,
        payment_id=prepared.payment_id if prepared else None,
        tx=prepared.signed.tx if prepared and prepared.signed else None,
        explanation_json=canonical_json(explanation).decode(),
        previous_hash=known.agent.last_entry_hash or FIRST_PREVIOUS_HASH,
        key_id=signer.key_id,
        # Without its key in the log, a request that could not be evaluated is evaluated again (docs/background.md,
        # "Traps", 7).
        idempotency_key=request.idempotency_key if is_final else None,
        fingerprint=request.fingerprint if is_final else None,
        spent_total=known.agent.spent_total + (request.amount if decision.is_approved else 0),
        clock_repairs=known.clock_repairs,
        refused_request=None if is_final else digest,
    )
    entry.hash, entry.signature = seal(receipt(entry), signer.sign_receipt)
    return entry


def _id_before(known: Known) -> str | None:
    """Return the id after which the next one must sort; None after a clock repair: the last id is of a future time."""
    last = known.agent.last_entry_id
    return last if last and time_of(last) <= known.decided_at else None

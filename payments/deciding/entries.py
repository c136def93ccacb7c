"""Convert decisions into their log entries: what each explains, and its seal."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from chains.port import SignerUnavailable
from foundation.kernel.canonical import canonical_json
from foundation.kernel.errors import BudgetExceeded, OutsideAllowedTime, PolicySignerUnavailable
from foundation.kernel.ids import new_id, time_of
from foundation.kernel.times import format_instant
from ledger.models import LogEntry, Result
from ledger.receipts import FIRST_PREVIOUS_HASH, receipt, request_digest, seal
from payments.deciding.known import Known
from payments.deciding.requests import Carrier, HeldPayment
from payments.deciding.running import Decided, Judged
from policy.asking import rules_of_levels
from policy.facts import Facts, Level
from policy.more_limits import MoreLimits
from policy.rule import Decision, Figures, Rule, Wait, WaitUntil, write_figure
from policy.rules import SIGNER_RULE, rules_in_force
from policy.signer import PolicySigner
from policy.time_limits import first_allowed

FindMoment = Callable[[Wait], datetime | None]


def explain_approval(decision: Decision, facts: Facts, recipient: str, escrow_id: str) -> dict[str, Any]:
    """Explain an approval in the form of the log, with what each rule records.

    `recipient` is CAIP-10, `escrow_id` what its chain knows the payment by.
    """
    message = decision.explanation.message
    return {"message": message, "recipient": recipient, **_recorded(facts), **_of_levels(facts), "escrowId": escrow_id}


def _of_levels(facts: Facts) -> dict[str, list[dict[str, str]]]:
    """Say what those above the agent, the parent first, record of a payment; nothing if there are none."""
    judged = [{**_name_level(level), **_recorded(level.facts, rules_of_levels)} for level in facts.levels]
    return {"levels": judged} if judged else {}


def _name_level(level: Level) -> dict[str, str]:
    return {"agentId": level.agent, "policyRevision": f"polrev_{level.policy_revision}"}


def _recorded(facts: Facts, rules_of: Callable[[MoreLimits], Sequence[Rule]] = rules_in_force) -> dict[str, str]:
    recorded: dict[str, str] = {}
    for rule in rules_of(facts.more):
        if rule.record is not None:
            recorded |= rule.record.of(facts)
    return recorded


def explain_hold(decision: Decision, facts: Facts, recipient: str, expires_at: datetime) -> dict[str, Any]:
    """Explain why a payment is held: what its rule compared, and what each rule would record of the payment.

    `recipient` is CAIP-10.
    """
    why = decision.explanation
    written = {"message": why.message, "recipient": recipient, **write_figures(why.figures), **_recorded(facts)}
    return {**written, **_of_levels(facts), **level_of(why.level), "approvalExpiresAt": format_instant(expires_at)}


def level_of(level: Level | None) -> dict[str, dict[str, str]]:
    """Name the agent above the payer whose rule it is; nothing if it is the payer's own."""
    return {} if level is None else {"level": _name_level(level)}


def explain_answer(held: HeldPayment) -> dict[str, str]:
    """Say of the decision that ends a hold which one began it, and who has answered."""
    begun = {"heldBy": held.entry_id, "heldAt": format_instant(held.asked_at)}
    if not held.answer:
        return begun
    return begun | {"answer": held.answer, "answeredBy": held.answered_by, "answerReason": held.answer_reason}


def explain_refusal(decision: Decision, facts: Facts, find_moment: FindMoment) -> dict[str, Any]:
    """Explain a refusal in the form of the log: a sentence, and what was compared as decimal strings.

    `find_moment` finds the moment at which what a limit waits for has come to pass.
    """
    why = decision.explanation
    written: dict[str, Any] = {"message": why.message, **write_figures(why.figures), **level_of(why.level)}
    if decision.rule.refuses_with in (BudgetExceeded, OutsideAllowedTime):
        moments = [wait.at if isinstance(wait, WaitUntil) else find_moment(wait) for wait in why.waits_for]
        known = [moment for moment in moments if moment is not None]
        allowed_at = first_allowed(facts, max(known)) if known and len(known) == len(moments) else None
        written["allowedAt"] = None if allowed_at is None else format_instant(allowed_at)
    return written


def write_figures(figures: Figures) -> dict[str, str]:
    """Write what a rule compares as decimal strings; what it has not is left out."""
    return {name: write_figure(figure) for name, figure in figures._asdict().items() if figure is not None}


def make_entries(judged: Sequence[Judged], carriers: Sequence[Carrier], signer: PolicySigner) -> list[Decided]:
    """Make the sealed log entries of a batch, in its order; saves nothing.

    Raises:
        PolicySignerUnavailable: not even a refusal could be sealed, so that nothing is decided.
    """
    txs = {one.payment_id: carrier.signed.tx for carrier in carriers for one in carrier.payments}
    heads: dict[str, LogEntry] = {}
    decided = []
    try:
        for one in judged:
            tx = None if one.prepared is None else txs.get(one.prepared.payment_id)
            entry = _make_entry(one, heads.get(one.request.agent_id), tx, signer)
            heads[one.request.agent_id] = entry
            decided.append(Decided(one, entry))
    except SignerUnavailable as error:
        raise PolicySignerUnavailable from error
    return decided


def _make_entry(judged: Judged, before: LogEntry | None, tx: str | None, signer: PolicySigner) -> LogEntry:
    """Make the entry after `before`, the agent's last one of the same batch, if it has any."""
    request, known, decision = judged.request, judged.known, judged.decision
    is_first = request.held is None  # its key has a decision by now otherwise
    is_final = decision.rule is not SIGNER_RULE
    keeps_key = is_final and is_first
    digest = request_digest(request.idempotency_key, request.fingerprint)
    explanation = judged.explanation | ({"request": digest} if keeps_key else {})
    last_id, last_hash = known.agent.last_entry_id, known.agent.last_entry_hash
    if before is not None:
        last_id, last_hash = before.id, before.hash
    entry = LogEntry(
        id=new_id("log", known.decided_at, after=_id_before(last_id, known)),
        agent_id=request.agent_id,
        service=request.service,
        amount=request.amount_text,
        asset=request.asset.value,
        result=result_of(decision).value,
        rule=decision.rule.name,
        created_at=known.decided_at,
        reason=request.reason,
        metadata_json=request.metadata_json,
        policy_revision=known.agent.policy_revision,
        payment_id=judged.payment_id,
        tx=tx,
        explanation_json=canonical_json(explanation).decode(),
        previous_hash=last_hash or FIRST_PREVIOUS_HASH,
        key_id=signer.key_id,
        # Without its key in the log, a request that could not be evaluated is evaluated again (docs/background.md,
        # "Traps", 7).
        idempotency_key=request.idempotency_key if keeps_key else None,
        fingerprint=request.fingerprint if keeps_key else None,
        spent_total=known.agent.spent_total + judged.paid,
        clock_repairs=known.clock_repairs,
        refused_request=None if is_final else digest,
    )
    entry.hash, entry.signature = seal(receipt(entry), signer.sign_receipt)
    return entry


def result_of(decision: Decision) -> Result:
    """Return what the log says of a decision."""
    if decision.is_held:
        return Result.HELD
    return Result.APPROVED if decision.is_approved else Result.BLOCKED


def _id_before(last: str, known: Known) -> str | None:
    """Return the id after which the next one must sort; None after a clock repair: the last id is of a future time."""
    return last if last and time_of(last) <= known.decided_at else None

"""Format what other limits would have decided otherwise, as lines for people and as JSON for programs."""

from collections.abc import Iterator
from typing import Any

from foundation.console.figures import printable, show_amount
from foundation.kernel.money import format_amount
from foundation.kernel.times import format_instant
from ledger.models import Result
from ledger.preview import Preview, Share
from ledger.replay import Judged

_ROW = "    {:<24}  {:<30}  {:>16}  {:<58}  {}"


def lines_of(agent_id: str, asset: str, found: Preview) -> Iterator[str]:
    """Say in lines what the limits would have decided otherwise of what an agent asked for."""
    since, until = format_instant(found.since), format_instant(found.until)
    yield f"{agent_id}: {_count(found.decisions, 'decision')} judged, of {since} to {until}"
    if found.is_capped:
        yield "  There were more: these are the newest."
    for note in found.notes:
        yield f"  {note}"
    yield from _share("approved then, would be refused now", found.refused, asset)
    yield from _share("refused then, would be approved now", found.let_through, asset)
    if found.held.count:
        yield from _share("asked nobody then, would wait for a person now", found.held, asset)
    if found.unasked.count:
        yield from _share("approved by a person then, would ask nobody now", found.unasked, asset)
    newest = found.newest()
    if newest:
        yield _ROW.format("time", "log id", "amount", "rule then → rule now", "payee")
    for judged in newest:
        yield _row(judged)
    if (rest := found.otherwise - len(newest)) > 0:
        yield f"    and {rest:,} more before these."


def _share(title: str, share: Share, asset: str) -> Iterator[str]:
    yield f"  {share.count:,} {title}" + (f": {show_amount(share.total)} {asset}" if share.count else "")
    for rule, count in share.by_rule.most_common():
        yield f"    {rule}: {count:,}, {show_amount(share.total_by_rule[rule])} {asset}"


def _row(judged: Judged) -> str:
    past = judged.past
    then = "approved" if past.is_approved else past.rule
    now = "held" if judged.held_by else "approved" if judged.is_approved else judged.rule
    # As it was asked for: whatever is in it, a row stays a line.
    payee = printable(past.service).replace("\n", "\\n").replace("\t", "\\t")
    payer = f" by {past.payer}" if past.payer else ""
    return _ROW.format(format_instant(past.at), past.id, show_amount(past.amount), f"{then} → {now}", payee + payer)


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def present(agent_id: str, asset: str, found: Preview) -> dict[str, Any]:
    """Write the same as JSON."""
    newest = found.newest()
    return {
        "agentId": agent_id,
        "asset": asset,
        "decisions": found.decisions,
        "since": format_instant(found.since),
        "until": format_instant(found.until),
        "isCapped": found.is_capped,
        "notes": list(found.notes),
        "otherwise": found.otherwise,
        "refused": _present_share(found.refused),
        "letThrough": _present_share(found.let_through),
        "held": _present_share(found.held),
        "unasked": _present_share(found.unasked),
        "newest": [_present_judged(agent_id, judged) for judged in newest],
        "notListed": found.otherwise - len(newest),
    }


def _present_share(share: Share) -> dict[str, Any]:
    return {
        "decisions": share.count,
        "amount": format_amount(share.total),
        "rules": [
            {"rule": rule, "decisions": count, "amount": format_amount(share.total_by_rule[rule])}
            for rule, count in share.by_rule.most_common()
        ],
    }


def _present_judged(agent_id: str, judged: Judged) -> dict[str, Any]:
    past = judged.past
    return {
        "at": format_instant(past.at),
        "logId": past.id,
        "amount": format_amount(past.amount),
        "payee": past.service,
        "agentId": past.payer or agent_id,
        "then": {"result": _result(is_approved=past.is_approved), "rule": past.rule},
        "now": _now(judged),
    }


def _now(judged: Judged) -> dict[str, str]:
    if judged.held_by:
        return {"result": Result.HELD.value, "rule": judged.held_by}
    return {"result": _result(is_approved=judged.is_approved), "rule": judged.rule}


def _result(*, is_approved: bool) -> str:
    return (Result.APPROVED if is_approved else Result.BLOCKED).value

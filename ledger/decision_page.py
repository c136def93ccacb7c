"""What the pages of a log entry and of its payment show of the decision, and its receipt."""

import json
from collections.abc import Iterator
from typing import Any

from django.db.models import Q
from django.http import Http404, HttpResponse

from chains.port import SignerUnavailable
from foundation.kernel.times import utc_now
from ledger.evidence import find_link_problem, find_seal_problems
from ledger.judgements import tell, words_of
from ledger.models import Hold, LogEntry, Result
from ledger.receipts import receipt
from policy.signer import published_keys


def show_decision(entry: LogEntry) -> dict[str, Any]:
    """Give the templates a decision: told in words, and verified now.

    `hold`: what waited, or waits, for a person's approval by it; None: nothing. `asked`: the entry of the request.
    """
    hold = Hold.objects.filter(Q(entry=entry) | Q(final_entry=entry)).select_related("entry").first()
    return {
        "entry": entry,
        "hold": hold,
        "asked": entry if hold is None else hold.entry,
        "told": tell(entry),
        "words": words_of(entry),
        "metadata": list(read_metadata(entry)),
        "problems": find_problems(entry),
        "is_approved": entry.result == Result.APPROVED,
        "is_held": entry.result == Result.HELD,
        "now": utc_now(),
    }


def find_problems(entry: LogEntry) -> list[str]:
    """Verify an entry: its hash, its signature, its idempotency record and its place in the chain."""
    try:
        keys: list[Any] = published_keys()["keys"]
    except SignerUnavailable as error:
        return [f"It cannot be verified here: {error}"]
    return [*find_seal_problems(entry, keys), *filter(None, [find_link_problem(entry)])]


def receipt_file(entry: LogEntry) -> HttpResponse:
    """Answer with the receipt as the API shows it, to be kept as a file; `manage.py verify_receipt` reads it."""
    try:
        text = json.dumps(receipt(entry), ensure_ascii=False, indent=2)
    except ValueError as error:
        raise Http404("Somebody made this entry unreadable: it has no receipt.") from error
    response = HttpResponse(f"{text}\n", content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="{entry.id}.json"'
    return response


def read_metadata(entry: LogEntry) -> Iterator[tuple[str, str]]:
    """Yield the values of an entry's metadata, as text, each with its name."""
    try:
        metadata: Any = entry.metadata
    except ValueError:
        yield "metadata", "unreadable"
        return
    yield from () if metadata is None else flatten(metadata)


def flatten(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of metadata, each with the names that lead to it."""
    if isinstance(value, dict | list):
        members = value.items() if isinstance(value, dict) else enumerate(value, 1)
        for key, inner in members:
            yield from flatten(inner, f"{name}: {key}" if name else str(key))
    elif isinstance(value, bool):
        yield name, "yes" if value else "no"
    else:
        yield name, "none" if value is None else str(value)

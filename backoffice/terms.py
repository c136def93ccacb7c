"""How a term that somebody types is compared with ids, keys, addresses and transactions."""

from contextlib import suppress
from functools import cached_property
from typing import Any

from django.db.models import Q

from backoffice.hits import MOST_OF_A_KIND
from chains.addresses import RecipientError, read_evm_address
from foundation.database import reading_connection
from foundation.groups import read_reachable
from payments.models import Settlement

_LEAST_HASH = 6  # as notices shorten them: 0x and four digits
_LEAST_END = 4
_LEAST_PART = 3  # fewer characters are a part of every id
# One probe of the index for each agent: without the agent, no index has the key.
_BY_KEY = """
    SELECT entry.id FROM policy_agent agent CROSS JOIN LATERAL (
        SELECT id FROM ledger_logentry WHERE agent_id = agent.id AND idempotency_key = %s OFFSET 0
    ) entry LIMIT %s
"""


class Term(str):  # noqa: SLOT000 - it remembers what it found
    """A term, and what several kinds look for with it: it is looked for once."""

    @cached_property
    def entries_with_key(self) -> list[str]:
        """The entries with this idempotency key, which each agent may have used."""

        def read() -> list[str]:
            with reading_connection().cursor() as cursor:
                cursor.execute(_BY_KEY, [str(self), MOST_OF_A_KIND])
                return [row[0] for row in cursor.fetchall()]

        return read_reachable(read)[:MOST_OF_A_KIND]


def begins(prefix: str, term: str, field: str = "pk") -> Q:
    """Select ids that begin as the term does; it may leave out the prefix that says what it is an id of."""
    term = term.lower()
    part = term.removeprefix(f"{prefix}_")
    if len(part) < _LEAST_PART or not (part.isascii() and part.isalnum()):
        return Q(pk__in=())
    begin = f"{prefix}_{part}"
    return Q(**{f"{field}__gte": begin, f"{field}__lt": f"{begin}~"})


def part(field: str, term: str) -> Q:
    """Select texts that contain a term; a short one must be all of the text."""
    return Q(**{f"{field}__icontains": term}) if len(term) >= _LEAST_PART else Q(**{field: term})


def cases(term: str) -> list[str]:
    """Write an address or a transaction as it may be kept: hex in three cases, base58 only in its own."""
    text = term.rpartition(":")[2]
    cases = {text}
    if text[:2].lower() == "0x":
        cases.add(text.lower())
        with suppress(RecipientError):
            cases.add(read_evm_address(text.lower()))
    return sorted(cases)


def shortened(term: str) -> tuple[str, str] | None:
    """Read how an address or a hash begins and ends, as notices shorten it; of a whole one, both are all of it.

    None: it is too short to tell, or something else.
    """
    text = term.rpartition(":")[2].replace("...", "…")
    head, dots, tail = text.partition("…")
    if text[:2].lower() == "0x":
        head, tail = head.lower(), tail.lower()
    tail = tail if dots else head
    digits = min(len(head.removeprefix("0x")), len(tail.removeprefix("0x")))
    is_text = head.isascii() and tail.isascii() and head.isalnum() and tail.isalnum()
    return (head, tail) if is_text and digits >= _LEAST_END else None


def hashed(term: str, field: str = "pk") -> Q:
    """Select transactions by their ids, by how these begin, or by both ends of them; the index has their beginnings."""
    head, dots, tail = term.replace("...", "…").partition("…")
    same = Q()
    for tx in cases(head):
        if len(tx) >= _LEAST_HASH:
            same |= Q(**{f"{field}__gte": tx, f"{field}__lt": f"{tx}~"})
    if not same:
        return Q(pk__in=())
    return same & Q(**{f"{field}__endswith": tail.lower() if head[:2].lower() == "0x" else tail}) if dots else same


def select_transactions(term: str) -> Any:
    """Select the transactions of an id, or of a part of it."""
    return Settlement.objects.filter(hashed(term)).defer("raw")

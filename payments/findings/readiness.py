"""Whether payments can be made: the findings that keep them from it, in words for everybody."""

from collections.abc import Iterable, Sequence

from django.conf import settings
from django.db import DatabaseError
from redis.exceptions import RedisError

from chains.catalogue import alias_of
from foundation import silent_processes
from foundation.findings import Finder
from payments import findings
from policy import findings as of_policy

_UNAVAILABLE = "unavailable"


def find_unready() -> dict[str, str]:
    """Name each part that payments need, with what is wrong with it in a few words, "" if nothing is.

    An asset that is out of service on a chain is not among them, unless the chain has no other. Without Redis nobody
    knows which processes are there.
    """
    parts = {"database": "", "broker": ""}
    try:
        parts |= _look_at(silent_processes.NEEDED_BY_PAYMENTS, silent_processes.FINDERS)
    except RedisError:
        parts["broker"] = _UNAVAILABLE
    chains = [served.chain.alias for served in settings.CHAINS.values()]
    try:
        parts |= _look_at((of_policy.SIGNER.name, *chains), (*of_policy.FINDERS, *findings.FINDERS))
    except DatabaseError:
        parts["database"] = _UNAVAILABLE
    return parts


def _look_at(parts: Iterable[str], finders: Sequence[Finder]) -> dict[str, str]:
    """Ask the quick finders; of a part, the first thing that is found is said."""
    said = dict.fromkeys(parts, "")
    for finding in (one for finder in finders if finder.is_quick for one in finder.find()):
        part = alias_of(finding.subject) or finding.kind.name
        if part in said:
            said[part] = said[part] or finding.unready
    return said

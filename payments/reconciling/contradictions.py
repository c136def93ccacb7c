"""Record which nodes of a chain contradict the others, for people to look at (`payments.queries` reads it)."""

from datetime import datetime, timedelta

from django.db import transaction

from chains.port import ChainAdapter
from foundation.groups import outside_groups
from foundation.kernel.times import format_instant, is_fresh, utc_now
from payments.models import ChainState

# A node that lies does so with every question; it is written down no more often than this.
_EVERY = timedelta(minutes=1)


def record_contradictions(chain: str, adapter: ChainAdapter) -> None:
    """Record the nodes that have contradicted the others since this process last asked for them; it asks no node."""
    found = adapter.inspector.take_contradictions()
    if not found:
        return
    now = utc_now()
    with outside_groups(), transaction.atomic():
        state = ChainState.objects.select_for_update(no_key=True).filter(pk=chain).first()
        if state is None:
            return  # the watcher has never seen the chain: nothing is paid there
        known = state.contradictions
        news = [one for one in found if not _is_known(known.get(str(one.node)), now)]
        if news:
            at = format_instant(now)
            state.contradictions = known | {str(one.node): {"at": at, "about": one.about} for one in news}
            state.save(update_fields=["contradictions"])


def _is_known(recorded: dict[str, str] | None, now: datetime) -> bool:
    return recorded is not None and is_fresh(datetime.fromisoformat(recorded["at"]), now, _EVERY)

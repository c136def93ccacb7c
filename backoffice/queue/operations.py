"""What keeps payments from being made or sent: an unobserved chain, a missing token, relayers without gas money."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Q

from backoffice.queue.items import Item, Severity, list_page, numbered, row_page
from chains.catalogue import alias_of
from foundation.kernel.times import is_fresh, utc_now
from payments.models import ChainState, Relayer
from payments.queries import ContradictingNode, find_assets_on_chains, find_contradicting_nodes


def find_unseen_chains() -> list[Item]:
    """Find the served chains that the watcher has not seen for too long: nothing is paid there."""
    seen = dict(ChainState.objects.values_list("chain", "observed_at"))
    longest = timedelta(seconds=settings.CHAIN_STATE_MAX_AGE_S)
    now = utc_now()
    return [
        Item(
            "unseen",
            1,
            f"{alias_of(chain)} is not observed: nothing is paid there. Does the worker run, do its nodes answer?",
            list_page("payments_chainstate"),
            "Look at chains",
            Severity.ERROR,
            "payments.view_chainstate",
            seen.get(chain),
            chain,
        )
        for chain in settings.CHAINS
        if not is_fresh(seen.get(chain), now, longest)
    ]


def find_lying_nodes() -> list[Item]:
    """Find the chains of which a node contradicts the others; what most of them say counts, and payments go on."""
    found: dict[str, list[ContradictingNode]] = {}
    for one in find_contradicting_nodes(utc_now()):
        found.setdefault(one.chain, []).append(one)
    return [
        Item(
            "nodes",
            len(nodes),
            " ".join(map(str, nodes)),
            row_page("payments_chainstate", chain),
            "Look at the chain",
            Severity.WARNING,
            "payments.view_chainstate",
            min(one.at for one in nodes),
            chain,
        )
        for chain, nodes in found.items()
    ]


def find_assets_out_of_service() -> list[Item]:
    """Find the chains on which an asset is not paid with, unless the operator has left it out; the others go on."""
    out: dict[str, list[str]] = {}
    for one in find_assets_on_chains():
        if one.objection and not one.is_left_out:
            out.setdefault(one.chain, []).append(one.objection)
    return [
        Item(
            "assets",
            len(objections),
            f"{alias_of(chain)}: {numbered(len(objections), 'asset is', 'assets are')} out of service, the others are "
            f"paid with. {' '.join(objections)}",
            row_page("payments_chainstate", chain),
            "Look at the chain",
            Severity.WARNING,
            "payments.view_chainstate",
            subject=chain,
        )
        for chain, objections in out.items()
    ]


def find_short_relayers() -> list[Item]:
    """Find the chains whose relayers are short of gas money; where none has enough, nothing is paid."""
    in_use: Any = Relayer.objects.filter(chain__in=settings.CHAINS, is_enabled=True, most_cost__isnull=False)
    rows = (
        in_use.order_by()
        .values_list("chain")
        .annotate(relayers=Count("pk"), short=Count("pk", filter=Q(is_funded=False)))
    )
    return [_of_relayers(chain, count, short) for chain, count, short in rows if short]


def _of_relayers(chain: str, count: int, short: int) -> Item:
    rest = "nothing is paid there." if short == count else "the others pay."
    relayers = numbered(short, f"of {count} relayers is", f"of {count} relayers are")
    return Item(
        "relayers",
        short,
        f"{alias_of(chain)}: {relayers} short of gas money: {rest}",
        list_page("payments_relayer"),
        "Look at relayers",
        Severity.ERROR if short == count else Severity.WARNING,
        "payments.view_relayer",
        subject=chain,
    )

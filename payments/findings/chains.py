"""What is wrong with chains: nothing is paid there, an asset is out of service, or a node contradicts the others."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from django.conf import settings

from chains.catalogue import alias_of
from foundation.console.figures import numbered
from foundation.findings import FINANCE, OPERATIONS, Finder, Finding, Kind, Severity
from foundation.kernel.times import is_fresh, utc_now
from payments.findings.pages import CHAINS, COMPARISONS_THERE, ON_THEIR_WAY_THERE, OPEN_OUTFLOWS_THERE, the_chain
from payments.models import ChainState
from payments.queries import ContradictingNode, find_assets_on_chains, find_chain_states, find_contradicting_nodes

UNSEEN = Kind(
    "unseen",
    "Nobody has looked at this chain for too long. Nothing is paid there, since nobody can say what is true there; "
    "what is approved waits.",
    "See whether worker and beat run, then whether the chain's nodes answer: python manage.py doctor says that.",
    "operate/stuck-chain", (CHAINS, ON_THEIR_WAY_THERE),
)  # fmt: skip
MISMATCH = Kind(
    "mismatch",
    "The escrow or the node is not what the settings say. Nothing is paid on this chain, so that nothing is sent to a "
    "contract that is not ours.",
    "Find out which of the two has changed: the settings, by a deployment, or the contract, by its owner; python "
    "manage.py chains compares them. Put the settings right; a worker looks again within a minute. If nobody of yours "
    "changed the contract, take it that its owner's key was stolen.",
    "operate/stuck-chain", (CHAINS, ON_THEIR_WAY_THERE), (FINANCE, OPERATIONS),
)  # fmt: skip
STOPPED = Kind(
    "chains",
    "No payment on this chain is signed. What is approved waits and is not lost; new payments there are answered 503.",
    "Read why it was stopped, and mend that first. Then start signing again on the chain's page, with the reason, or: "
    "python manage.py start_chain CHAIN",
    "operate/stuck-chain", (OPEN_OUTFLOWS_THERE, COMPARISONS_THERE, ON_THEIR_WAY_THERE), (FINANCE, OPERATIONS),
)  # fmt: skip
NODES = Kind(
    "nodes",
    "One node says something else than the others: it lies, lags or is on a fork. What most nodes say counts, so "
    "payments and deposits go on. Nothing is given back that this node denies, and two that lie alike would be "
    "believed.",
    "Compare its answers with the others' and with an explorer of somebody else, then put another provider's address "
    "in its place: docs/operate/lying-provider.md",
    "operate/lying-provider", (CHAINS, ON_THEIR_WAY_THERE),
)  # fmt: skip
ASSETS = Kind(
    "assets",
    "Payments in this asset on this chain are refused. All other assets and chains go on.",
    "The finding says what is wrong with the asset. Put its token's address right in the settings, or leave it out.",
    "operate/chains", (CHAINS,),
)  # fmt: skip

NO_ASSET = Kind(
    "no asset",
    "No payment on this chain is approved, in whatever asset; what was approved before goes on. Other chains go on.",
    "The finding says what is wrong with each asset. Put the addresses of the tokens right in the settings, or serve "
    "the chain no more.",
    "operate/chains", (CHAINS,),
)  # fmt: skip


def find_troubles_of_chains() -> Iterator[Finding]:
    """Find the served chains that no worker observes, and all that differ from their configuration or are stopped."""
    states = find_chain_states()
    longest, now = timedelta(seconds=settings.CHAIN_STATE_MAX_AGE_S), utc_now()
    for chain in sorted({*states, *settings.CHAINS}):
        state = states.get(chain)
        if chain in settings.CHAINS and not is_fresh(state.observed_at if state else None, now, longest):
            yield _of_unseen(chain, state)
        if state is not None and state.mismatch:
            yield of_mismatch(chain, state.mismatch)
        if state is not None and state.stopped_reason:
            says = f"{alias_of(chain)}: Signing is stopped: {state.stopped_reason}"
            page, since = the_chain(chain), state.stopped_at
            yield Finding(STOPPED, Severity.ERROR, says, page, chain, since=since, unready="signing is stopped")


def _of_unseen(chain: str, state: ChainState | None) -> Finding:
    since = f"since {state.observed_at:%Y-%m-%d %H:%M} UTC" if state else "yet"
    says = f"{alias_of(chain)} is not observed {since}: nothing is paid there."
    seen_at = state.observed_at if state else None
    page = the_chain(chain) if state else CHAINS
    return Finding(UNSEEN, Severity.ERROR, says, page, chain, since=seen_at, unready="not observed lately")


def of_mismatch(chain: str, difference: str) -> Finding:
    """Say that a chain (CAIP-2) is not what is configured; `difference` is a sentence."""
    says = f"{alias_of(chain)}: It is not what is configured: {difference} Nothing is paid there."
    return Finding(MISMATCH, Severity.ERROR, says, the_chain(chain), chain, unready="not what is configured")


def find_lying_nodes() -> Iterator[Finding]:
    """Find the chains of which a node contradicts the others; what most of them say counts, and payments go on."""
    found: dict[str, list[ContradictingNode]] = {}
    for one in find_contradicting_nodes(utc_now()):
        found.setdefault(one.chain, []).append(one)
    for chain, nodes in found.items():
        says, since = " ".join(map(str, nodes)), min(one.at for one in nodes)
        yield Finding(NODES, Severity.WARNING, says, the_chain(chain), chain, len(nodes), since)


def find_assets_out_of_service() -> Iterator[Finding]:
    """Find the chains on which an asset is not paid with, unless the operator has left it out, or on which none is."""
    out: dict[str, list[str]] = {chain: [] for chain in settings.CHAINS}
    in_service = set()
    for one in find_assets_on_chains():
        if not one.objection:
            in_service.add(one.chain)
        elif one.is_out_of_service:
            out[one.chain].append(one.objection)
    for chain, objections in out.items():
        if objections or chain not in in_service:
            yield of_assets(chain, objections, is_paying=chain in in_service)


def of_assets(chain: str, objections: Sequence[str], *, is_paying: bool) -> Finding:
    """Say that assets are out of service on a chain; `is_paying`: there are others, which are paid with."""
    alias, why = alias_of(chain), " ".join(objections)
    if is_paying:
        out = numbered(len(objections), "asset is", "assets are")
        says = f"{alias}: {out} out of service, the others are paid with. {why}"
        return Finding(ASSETS, Severity.WARNING, says, the_chain(chain), chain, len(objections))
    says = f"{alias}: no asset is in service: nothing is paid there. {why}".strip()
    return Finding(NO_ASSET, Severity.ERROR, says, the_chain(chain), chain, unready="no asset is in service")


FINDERS = (
    Finder(find_troubles_of_chains, (UNSEEN, MISMATCH, STOPPED), is_quick=True),
    Finder(find_lying_nodes, (NODES,)),
    Finder(find_assets_out_of_service, (ASSETS, NO_ASSET), is_quick=True),
)

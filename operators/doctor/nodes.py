"""Look at each node of each chain. A node is named by its place in the variable: its address may hold a key."""

from collections.abc import Iterator
from datetime import timedelta
from time import monotonic
from types import ModuleType
from urllib.parse import urlsplit

from django.conf import settings

from chains.catalogue import ServedChain, Vm
from chains.evm import node_health as of_evm
from chains.port.node_health import NodeHealth
from chains.rpc.agreement import find_agreed
from chains.rpc.transport import Connection, NodeAway
from chains.solana import node_health as of_solana
from foundation.kernel.times import LARGEST_SKEW, utc_now
from operators.doctor.diagnoses import Diagnosis, error, ok, warning
from operators.doctor.looking import is_this_machine

_VMS: dict[Vm, ModuleType] = {Vm.EVM: of_evm, Vm.SOLANA: of_solana}
# A chain may be quiet; one whose newest block is older has stopped, or the node has.
_LONGEST_LAG = timedelta(minutes=2)
# Of all the questions to one node together; a good one takes a tenth of it.
_SLOW_S = 3
# Two epochs of Ethereum are 13 minutes, and the batches of rollups come after that.
_LATEST_FINAL = timedelta(hours=1)
# Block times run ahead of clocks by up to 15 s on some chains.
_MOST_AHEAD = timedelta(seconds=15) + LARGEST_SKEW
_FEWEST_AGREEING = 2


def find_faulty_nodes() -> Iterator[Diagnosis]:
    """Ask each node for its chain, its newest and its final block, and whether it keeps the state of that."""
    for served in settings.CHAINS.values():
        for number, url in enumerate(served.rpc_urls, 1):
            subject = _name(served, number)
            try:
                health, took_s = _read_health(served, url)
                if took_s > _SLOW_S:  # a moment's delay is none of the node's
                    took_s = min(took_s, _read_health(served, url)[1])
            except NodeAway as trouble:
                yield error(subject, f"It is of no use: {trouble}.", _replace(served, number))
                continue
            if took_s > _SLOW_S:
                says = f"It takes {took_s:.0f} s to answer: deposits and payments that wait for it come late."
                yield warning(subject, says, _replace(served, number))
            yield _of_health(subject, served, health, _replace(served, number))


def _read_health(served: ServedChain, url: str) -> tuple[NodeHealth, float]:
    began = monotonic()
    return _VMS[served.chain.vm].read_health(Connection(url), served), monotonic() - began


def find_open_ways() -> Iterator[Diagnosis]:
    """Find nodes elsewhere that are spoken to without TLS: whoever sits between is believed instead of them."""
    ways = [
        (served, number, url) for served in settings.CHAINS.values() for number, url in enumerate(served.rpc_urls, 1)
    ]
    found = [way for way in ways if way[2].startswith("http:") and not is_this_machine(urlsplit(way[2]).hostname or "")]
    for served, number, _ in found:
        says = "Its address begins with http://: whoever sits between can change what it says."
        yield warning(_name(served, number), says, f"Write https:// in {served.chain.variables}_RPC_URLS")
    if not found:
        yield ok("ways to nodes", "Each leads through TLS, or stays on this machine.")


def _name(served: ServedChain, number: int) -> str:
    return f"{served.chain.alias}, node {number} of {len(served.rpc_urls)}"


def _replace(served: ServedChain, number: int) -> str:
    return f"Correct or replace address {number} of {served.chain.variables}_RPC_URLS: docs/operate/stuck-chain.md"


def _of_health(subject: str, served: ServedChain, health: NodeHealth, replace: str) -> Diagnosis:
    lag = utc_now() - health.newest_at
    if lag < -_MOST_AHEAD:
        ahead = f"{-lag.total_seconds():.0f} s in the future"
        says = f"Its newest block is dated {ahead}: this machine's clock is behind, or the node lies."
        return error(subject, says, f"systemctl enable --now chrony; if this machine's clock is right: {replace}")
    if lag > _LONGEST_LAG:
        says = f"Its newest block, {health.newest}, is {_age(lag)} old: it lags, or the chain stands still."
        return error(subject, says, replace)
    return _of_final(subject, served, health, replace)


def _of_final(subject: str, served: ServedChain, health: NodeHealth, replace: str) -> Diagnosis:
    variables = served.chain.variables
    if health.final is None or health.final_at is None:
        says = "It does not tell which block is final: no payment is settled by its word."
        return error(subject, says, f"Name a node that knows the finalized tag, or set {variables}_FINALITY_DEPTH")
    age = utc_now() - health.final_at
    if age > _LATEST_FINAL:
        return error(subject, f"Its final block, {health.final}, is {_age(age)} old: nothing is settled.", replace)
    if not health.has_state:
        says = f"It has forgotten the state of its final block, {health.final}: reconcile cannot read the escrow there."
        return warning(subject, says, f"Name a node that keeps old state (an archive node) in {variables}_RPC_URLS")
    newest = f"Block {health.newest} is {_age(utc_now() - health.newest_at)} old"
    return ok(subject, f"{newest}; final is {health.final}, {_age(age)} old.")


def _age(age: timedelta) -> str:
    seconds = max(0, round(age.total_seconds()))
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"  # noqa: PLR2004 - two minutes


def find_disagreeing_nodes() -> Iterator[Diagnosis]:
    """See that all nodes of a chain have the same final block, at the height of the one that is most behind."""
    for served in settings.CHAINS.values():
        subject = f"{served.chain.alias}, agreement"
        is_alone = len(served.rpc_urls) == 1
        yield ok(subject, "It has one node, whose word counts.") if is_alone else _compare(subject, served)


def _compare(subject: str, served: ServedChain) -> Diagnosis:
    reader = _VMS[served.chain.vm]
    nodes = {number: Connection(url) for number, url in enumerate(served.rpc_urls, 1)}
    final = {
        number: height for number, node in nodes.items() if (height := _final_of(reader, node, served)) is not None
    }
    if len(final) < len(nodes):
        away = ", ".join(str(number) for number in nodes if number not in final)
        return warning(subject, f"Not all nodes can be compared: see node {away}.", f"As for node {away}")
    height = min(final.values())
    try:
        hashes = {number: reader.read_block_hash(node, height) for number, node in nodes.items()}
    except NodeAway as trouble:  # of this chain: the others are compared all the same
        says = f"Not every node gives the final block {height}: {trouble}."
        return warning(subject, says, "See its nodes above; docs/operate/lying-provider.md")
    if len({*hashes.values()}) == 1:
        return ok(subject, f"All {len(nodes)} nodes have the same block {height}.")
    if agreed := find_agreed([*hashes.values()], _FEWEST_AGREEING):
        others = " and ".join(f"node {number}" for number, one in hashes.items() if one != agreed)
        says = f"The final block {height} is another one by {others} than by the others: it is on a fork, or lies."
        return error(
            subject, says, f"Put another provider's address in place of {others}: docs/operate/lying-provider.md"
        )
    says = f"Its nodes contradict each other about the final block {height}: one of them is on a fork, or lies."
    return error(subject, says, "Find out which by an explorer, and take it out: docs/operate/lying-provider.md")


def _final_of(reader: ModuleType, node: Connection, served: ServedChain) -> int | None:
    try:
        health: NodeHealth = reader.read_health(node, served)
    except NodeAway:
        return None
    return health.final

"""Steps of docs/operate/stuck-chain.md and docs/operate/lying-provider.md: a real node, and real lies about it."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.crash.evm_lies import no_logs
from tests.crash.misbehaviour import lying
from tests.crash.proxy import Proxy
from tests.crash.rules import Rule
from tests.runbooks.clients import Request
from tests.runbooks.installation import Company, block
from tests.runbooks.owner import GAS_PRICE_WEI, as_owner, escrow, is_searched, owner, relayers, send
from tests.runbooks.patience import wait_for
from tests.support.kills import is_gone
from tests.support.runbook import blocks
from workshop.localnet import evm_server

STUCK, LYING = "docs/operate/stuck-chain.md", "docs/operate/lying-provider.md"
_NODES = "CHAIN_EVM_LOCALNET_RPC_URLS"
_COIN_WEI = 10**18
_TRANSFER_GAS = 21_000


# --- A stuck chain ----------------------------------------------------------------------------------------------------
def pause_the_escrow_and_drain_the_relayers(company: Company) -> None:
    as_owner(company, "pause()")
    for one in relayers(company):
        has_wei = int(company.servers.rpc("eth_getBalance", one.address, "latest"), 16)
        all_wei = has_wei - _TRANSFER_GAS * GAS_PRICE_WEI
        send(company, one, owner(company).address, value_wei=all_wei, gas=_TRANSFER_GAS)
    wait_for(lambda: not _still_believed(company), "no relayer has gas money, as far as the watcher knows")


def see_why(company: Company) -> None:
    """See what the commands of the page say of it."""
    look, queues = blocks(STUCK)[0], block(STUCK, "relayers")
    (chain,) = company.run([look], status=1).answer["chains"]
    assert chain["mismatches"] == ["The escrow is paused: its owner lets it go on (unpause)."]
    rows = company.run(queues).answer["relayers"]
    assert [(row["inRotation"], row["drift"]) for row in rows] == [(False, 0)] * len(relayers(company))


def mend(company: Company) -> None:
    """Do as the page says: the owner lets the escrow go on, and the relayers get some of the chain's coin."""
    as_owner(company, "unpause()")
    for one in relayers(company):
        send(company, owner(company), one.address, value_wei=_COIN_WEI)


@contextmanager
def node_away(company: Company) -> Iterator[None]:
    """Kill the only node with -9, and start it again behind the block."""
    folder = company.servers.folder
    pid = evm_server.daemon(folder).pid()
    assert pid
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: is_gone(pid), "the node is gone")
    try:
        yield
    finally:
        evm_server.ensure(folder, owner(company).address, lambda _: None)


def see_that_the_node_is_away(company: Company) -> None:
    (chain,) = company.run(blocks(STUCK)[:1], status=1).answer["chains"]
    assert (chain["nodes"], chain["nodesAnswering"]) == (1, 0)


def see_that_it_goes_on(company: Company) -> None:
    company.run(blocks(STUCK)[-1:])


def _still_believed(company: Company) -> int:
    """Count the relayers of which the watcher does not know yet what was done with their keys."""
    return len(company.sql("SELECT FROM payments_relayer WHERE is_funded OR next_nonce < mined_nonce"))


# --- A lying provider -------------------------------------------------------------------------------------------------
@contextmanager
def lying_provider(company: Company) -> Iterator[Proxy]:
    """Have three providers, the last of whom denies every event; behind the block it is taken out."""
    node = company.this.variables[_NODES]
    lie = Rule("no event", lying({"eth_getLogs": no_logs}), ("eth_getLogs",))
    with Proxy(node, seed=1) as honest, Proxy(node, seed=2) as liar, liar.rules(lie):
        company.this.variables[_NODES] = ",".join([node, honest.url("a"), liar.url("b")])
        _restart_worker(company)
        try:
            yield liar
        finally:
            company.this.variables[_NODES] = node
            _restart_worker(company)


def wait_for_contradiction(company: Company, request: Request) -> None:
    """Wait until the payment is in a block, and the worker says which node contradicts the others about it."""
    tx = json.loads(request.final[1])["tx"]
    wait_for(lambda: company.servers.rpc("eth_getTransactionReceipt", tx), "the payment is in a block")
    wait_for(lambda: "node 3 of 3 contradicts the others" in company.this.log_of("worker"), "the worker says so")
    # What two of three say counts.
    wait_for(lambda: is_searched(company, tx), "the history of the escrow is known all the same")
    recorded = "SELECT FROM payments_chainstate WHERE contradictions -> '3' ->> 'about' LIKE 'the escrow''s events%'"
    wait_for(lambda: company.sql(recorded), "the console names it")


def see_who_lies(company: Company, request: Request, liar: Proxy) -> None:
    """Ask every node, as the page does: the last one says otherwise."""
    said = company.run(
        block(LYING, "urllib"), PAYMENT=request.payment, TX=json.loads(request.final[1])["tx"],
        ESCROW=escrow(company), RPC_URLS=company.this.variables[_NODES],
    ).output.splitlines()  # fmt: skip
    events = [int(line.rpartition(" ")[2]) for line in said if "events of the escrow" in line]
    assert events == [1, 1, 0]
    assert liar.applied["no event"]


def check_what_was_believed(company: Company) -> None:
    undisputed = "SELECT FROM payments_depositcursor WHERE disputed_after IS NOT NULL"
    wait_for(lambda: not company.sql(undisputed), "nobody denies any of the escrow's history any more")
    company.run(block(LYING, "catch_up"))


def _restart_worker(company: Company) -> None:
    company.this.stop("worker")
    company.this.start("worker")

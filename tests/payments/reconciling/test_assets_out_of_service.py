"""A token that is missing on a chain takes its asset out of service there, and nothing else; its money still counts."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal

import pytest
from django.conf import settings as configured

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from payments.admin.agents.ways_in import find_ways_in
from payments.api.readiness import find_unready_lately
from payments.findings.chains import find_assets_out_of_service
from payments.funding.pools import read_pool
from payments.models import ChainState, DepositCursor, Payment
from payments.reconciling.escrow_history import search_history
from payments.reconciling.reconciliation import reconcile
from services.operations import approve_service
from services.served_chains import served_chains
from tests.support.answers import error_of
from tests.support.commands import run
from tests.support.factories import decide, make_agent, make_service
from tests.support.heartbeats import hearts_that_beat
from tests.support.local_chain import Localnet
from tests.support.localnets import EVM, LOCALNETS, SOLANA
from tests.support.refusals import assert_logged, assert_nothing_moved, body_for

# Where nothing is: an account without code, and no account.
NOWHERE = {EVM.caip2: "0x" + "77" * 20, SOLANA.caip2: "4Nd1mYvJgRzM2cZ2gP7zqDqg8jxTz1rH4mQb3Xy7aKcD"}
Serve = Callable[..., None]


@pytest.fixture
def serve(settings) -> Iterator[Serve]:
    """Configure a chain otherwise, and let its watcher look."""
    before = configured.CHAINS

    def change(localnet: Localnet, tokens: Mapping[Asset, str] = {}, *, left_out: frozenset[Asset] = frozenset()):
        served = before[localnet.caip2]
        changed = replace(served, tokens={**served.tokens, **tokens}, left_out=left_out)
        settings.CHAINS = {**before, localnet.caip2: changed}
        served_chains.cache_clear()
        find_unready_lately.cache_clear()  # the next one asks in the same second
        localnet.observe()

    yield change
    settings.CHAINS = before
    served_chains.cache_clear()


@pytest.fixture(params=LOCALNETS, ids=lambda one: one.alias)
def localnet(request) -> Localnet:
    found: Localnet = request.param
    found.drain()
    return found


def test_a_missing_token_is_503_in_a_sentence_and_the_other_assets_go_on(api, anonymous, serve, localnet):
    agent, service = make_agent(asset=Asset.EURC), localnet.make_service(Asset.EURC)
    other, paid = make_agent(), localnet.make_service()
    serve(localnet, {Asset.EURC: NOWHERE[localnet.caip2]})

    error = error_of(api.pay(body_for(agent, service, asset="EURC")), 503, "policy_signer_unavailable")

    assert error["message"] == f"There is no EURC at {NOWHERE[localnet.caip2]}."
    assert_logged(agent, error, "policy_signer_available")
    assert_nothing_moved(agent)
    assert api.pay(body_for(other, paid)).status_code == 201
    assert ChainState.objects.get(chain=localnet.caip2).mismatch == ""
    with hearts_that_beat():
        ready = anonymous.get("/readyz")
    assert (ready.status_code, ready.json()["outOfService"]) == (200, [f"EURC on {localnet.alias}"])

    serve(localnet)
    assert api.pay(body_for(agent, service, asset="EURC")).status_code == 201
    assert "outOfService" not in anonymous.get("/readyz").json()


def test_it_is_told_wherever_an_operator_looks(anonymous, serve, settings, localnet):
    settings.METRICS_TOKEN = "monitor"
    serve(localnet, {Asset.EURC: NOWHERE[localnet.caip2]})

    lines, error = run("chains")
    shown = next(one for one in json.loads(lines[-1])["chains"] if one["chain"] == localnet.caip2)
    sentence = f"There is no EURC at {NOWHERE[localnet.caip2]}."
    assert (error, shown["mismatches"], shown["outOfService"]) == (None, [], {"EURC": sentence})
    assert any("matches, without EURC" in line for line in lines)
    assert any(sentence in line for line in lines if line.split()[0] == "out")

    metrics = anonymous.get("/metrics", authorization="Bearer monitor").content.decode()
    assert f'allowance_asset_out_of_service{{asset="EURC",chain="{localnet.alias}"}} 1.0' in metrics
    assert f'allowance_asset_out_of_service{{asset="USDC",chain="{localnet.alias}"}} 0.0' in metrics
    assert f'allowance_chain_mismatched{{chain="{localnet.alias}"}} 0.0' in metrics

    (item,) = find_assets_out_of_service()
    assert (item.subject, item.severity) == (localnet.caip2, "warning")
    assert sentence in item.says


def test_a_chain_without_any_asset_in_service_is_not_ready(anonymous, serve):
    serve(EVM, left_out=frozenset(configured.CHAINS[EVM.caip2].tokens))

    ready = anonymous.get("/readyz")

    assert ready.status_code == 503
    assert ready.json()["checks"]["evm-localnet"] == "no asset is in service"


def test_an_asset_that_the_operator_leaves_out_is_refused_and_nobodys_alarm(api, anonymous, serve, settings, localnet):
    settings.METRICS_TOKEN = "monitor"
    agent, service = make_agent(asset=Asset.EURC), localnet.make_service(Asset.EURC)
    pending = make_service(asset=Asset.EURC, recipient=service.recipient, approved=False)
    serve(localnet, left_out=frozenset({Asset.EURC}))

    error = error_of(api.pay(body_for(agent, service, asset="EURC")), 403, "service_not_payable")

    assert error["message"].startswith(f"EURC is out of service on {localnet.alias}: the operator has left it out.")
    assert error["rule"] == "service_payable"
    assert api.get("/v1/services", {"agentId": agent.id}).json()["data"] == []
    assert list(find_assets_out_of_service()) == []
    metrics = anonymous.get("/metrics", authorization="Bearer monitor").content.decode()
    assert f'allowance_asset_out_of_service{{asset="EURC",chain="{localnet.alias}"}} 0.0' in metrics
    with pytest.raises(OperationRefused, match=f"EURC, which is left out on {localnet.alias}"):
        approve_service(pending.id, by="test")
    assert localnet.caip2 not in {one.chain.caip2 for one in find_ways_in(agent.id, Asset.EURC, None)}


def test_what_is_held_of_an_asset_that_is_left_out_counts_all_the_same(db, serve, localnet):
    before = compare(localnet)
    serve(localnet, left_out=frozenset({Asset.EURC}))

    assert compare(localnet) == before
    assert before[0]


def test_what_was_held_of_a_token_that_is_gone_is_missed_and_not_forgotten(db, serve):
    held, pool = compare(EVM)
    serve(EVM, {Asset.EURC: NOWHERE[EVM.caip2]})

    now, less = compare(EVM)

    assert (now, less) == (Decimal(0), pool - held)


@pytest.mark.usefixtures("committed")
def test_a_payment_under_way_in_an_asset_that_is_left_out_is_settled(serve, localnet):
    localnet.observe()
    made = decide(make_agent(asset=Asset.EURC), localnet.make_service(Asset.EURC))
    serve(localnet, left_out=frozenset({Asset.EURC}))

    localnet.drain()

    assert Payment.objects.get(pk=made.payment_id).status == "settled"
    serve(localnet)


def compare(localnet: Localnet) -> tuple[Decimal, Decimal]:
    """Compare the escrow with the ledger; returns what it holds of EURC, and what all escrows hold of it."""
    for one in LOCALNETS:
        reached = one.bury()
        while (DepositCursor.objects.get(chain=one.caip2).block_number or 0) < reached:
            search_history(one.caip2, served_chains()[one.caip2])
        rows = {row.asset: row for row in reconcile(one.caip2, served_chains()[one.caip2])}
        if one is localnet:
            held = rows[Asset.EURC].holds
    pool = read_pool(Asset.EURC)
    assert pool is not None
    return held, pool.held

"""`SolanaPreparer.find_obstacle`: what stands in the way of a payment until somebody changes something."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from chains.port import TransactionPlan
from chains.solana.derivation import associated_account
from chains.solana.preparing import SolanaPreparer
from foundation.kernel.assets import Asset
from tests.chains.solana.test_preparing import MINIMUM, RECIPIENT, order
from tests.support.solana_vm import NOW, SEED, Bench


@pytest.fixture(scope="module")
def bench():
    return Bench()


def obstacle(bench, what, *, state=None, payee=None, chain=None):
    return (chain or bench.chain).find_obstacle(what, bench.state() if state is None else state, payee)


@pytest.mark.parametrize(
    ("held", "lamports", "least"),
    [
        (0, MINIMUM - 1, MINIMUM),
        (0, MINIMUM, None),
        (MINIMUM - 2, 1, 2),
        (MINIMUM - 1, 1, None),
        (MINIMUM, 1, None),
    ],
)
def test_too_little_for_an_account_that_was_seen_is_an_obstacle_that_names_the_least(bench, held, lamports, least):
    what = order(Asset.SOL, str(Decimal(lamports).scaleb(-9)))

    found = obstacle(bench, what, payee={"lamports": held})

    assert (found and found.least) == (least and Decimal(least).scaleb(-9))
    if least is not None:
        assert "would hold less than 0.00089088 SOL" in found.message
        enough = replace(what, amount=found.least)
        assert obstacle(bench, enough, payee={"lamports": held}) is None
        assert bench.chain.prepare(
            TransactionPlan.of_one(enough, bench.submitter, bench.state(), bench.signer, {"lamports": held}), NOW
        )


def test_an_account_that_was_closed_is_an_obstacle_without_an_amount(bench):
    account = str(associated_account(RECIPIENT, bench.mints[Asset.USDC], bench.program(Asset.USDC)))

    found = obstacle(bench, order(), payee={"opened": [account], "closed": [account]})

    assert found.least is None
    assert "closed its account for USDC" in found.message
    assert obstacle(bench, order(Asset.PYUSD), payee={"opened": [account], "closed": [account]}) is None
    assert obstacle(bench, order(), payee={"opened": [account], "closed": []}) is None


def test_an_asset_that_is_not_paid_with_by_configuration_is_an_obstacle_whatever_was_observed(bench):
    named = replace(bench.served().chain, aliases=("solana-bench",))
    served = replace(bench.served(), chain=named, left_out=frozenset({Asset.USDC}))
    without = SolanaPreparer(served, SEED, bench.signers)

    states: list[dict[str, Any]] = [{}, bench.state()]
    for state in states:
        assert "EURC is not served on this chain." in obstacle(bench, order(Asset.EURC), state=state).message
        assert "the operator has left it out" in obstacle(bench, order(), state=state, chain=without).message


@pytest.mark.parametrize("asset", [Asset.SOL, Asset.USDC])
def test_what_is_not_known_well_enough_is_no_obstacle(bench, asset):
    what, payee = order(asset, "0.000001"), {"lamports": 0, "closed": []}
    objected = {**bench.state()["tokens"], asset: {"program": "", "objection": "The mint is paused."}}

    assert obstacle(bench, what, payee=None) is None
    assert obstacle(bench, what, payee={}) is None
    states: list[dict[str, Any]] = [
        {}, bench.state(configuration="other"), bench.state(tokens={}), bench.state(tokens=objected)
    ]  # fmt: skip
    for state in states:
        assert obstacle(bench, what, state=state, payee=payee) is None

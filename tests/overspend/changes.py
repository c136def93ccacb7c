"""Scenarios in which somebody takes a permission back in mid-storm: once that has returned, nothing passes any more."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import requests

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from policy.key_operations import revoke_api_key
from policy.operations import pause_agent, set_policy
from services.operations import approve_service
from tests.overspend.answers import APPROVED
from tests.overspend.evidence import Kind
from tests.overspend.stage import Payer, Stage
from tests.support.factories import make_api_key

_AMOUNT = "0.01"
_FIRST = 15
_LATER = 20
_OK = 200


def policy_lowered(stage: Stage) -> None:
    """Lower the daily limit to less than is spent."""

    def lower(payer: Payer) -> None:
        least = Decimal(_AMOUNT)
        set_policy(payer.account.agent, change=lambda limits: replace(limits, daily_limit=least), by="overspend test")
        payer.allow(day=_AMOUNT, since=utc_now())

    _forbid(stage, lower)


def agent_paused(stage: Stage) -> None:
    """Pause the agent."""

    def pause(payer: Payer) -> None:
        pause_agent(payer.account.agent, by="ann")
        payer.allow(day="0", since=utc_now())

    _forbid(stage, pause)


def key_revoked(stage: Stage) -> None:
    """Revoke the agent's API key. What was sent before may still pass."""
    _forbid(stage, lambda payer: revoke_api_key(payer.api_key, by="test"))


def _forbid(stage: Stage, forbid: Callable[[Payer], object]) -> None:
    """Forbid in the middle of a storm, and ask again on every port once that has returned."""
    for _ in range(stage.world.size(5, 1)):
        count = stage.world.size(300, 200)
        # All of it would fit.
        payer = stage.payer(day=str(count * Decimal(_AMOUNT)))
        storm = stage.storm([payer.shot(_AMOUNT) for _ in range(count)])
        before = list(itertools.islice(storm, _FIRST))
        forbid(payer)
        payer.close()
        rest = list(storm)
        later = stage.strike([payer.shot(_AMOUNT) for _ in range(_LATER)])
        stage.expect(sum(answer.status == APPROVED for answer in before) > 1, "Nothing was spent before.")
        stage.expect(any(answer.status != APPROVED for answer in rest), "The storm was over too early.")
        stage.expect(len(later) == _LATER, "Nothing was asked for later.")
    stage.insist()


def asset_swapped(stage: Stage) -> None:
    """Ask for the same service in several assets, and let its asset be changed to another and back in between."""
    each = stage.world.size(100, 30)
    limit = str(each // 2)
    dollars = stage.payer(day=limit, wanted=limit)
    euros = stage.payer(day=limit, asset=Asset.EURC, service=dollars.service, wanted=limit)
    registrar = make_api_key(scopes=["services"])
    for asset in (Asset.EURC, Asset.USDC, Asset.EURC):
        wishes = [(dollars, "USDC"), (dollars, "EURC"), (dollars, "USDT"), (euros, "EURC"), (euros, "USDC")]
        storm = stage.storm([payer.shot(asset=name) for payer, name in wishes for _ in range(each // 2)])
        list(itertools.islice(storm, each // 4))
        _change_asset(stage, dollars, asset, registrar)
        since = utc_now()
        list(storm)
        wrong = {"USDC", "EURC"} - {str(asset)}
        for told in stage.told:
            if told.is_approved and told.created_at > since and told.asset in wrong:
                stage.complain(Kind.OVERSPENT, f"{told}, when the service was paid in {asset} only.")
        # Now everything of this asset that fits.
        payer = euros if asset is Asset.EURC else dollars
        stage.strike([payer.shot() for _ in range(each)])
    stage.insist()


def _change_asset(stage: Stage, payer: Payer, asset: Asset, registrar: str) -> None:
    """Register the service anew, as anybody with the scope can, and have finance staff approve it."""
    service = payer.service
    body = {"id": service.id, "name": service.name, "recipient": service.recipient, "asset": str(asset)}
    response = requests.post(
        f"{stage.world.fleet.urls[0]}/v1/services",
        json=body,
        headers={"Authorization": f"Bearer {registrar}"},
        timeout=60,
    )
    stage.expect(response.status_code == _OK, f"The service could not be changed: {response.text}")
    approve_service(service.id, by="overspend test")

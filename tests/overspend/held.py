"""The scenario of payments that a person has to approve: held, approved, declined, expired, and of a paused agent."""

import itertools
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from foundation.groups import within_group_of
from foundation.kernel.assets import Asset
from foundation.kernel.canonical import fingerprint
from foundation.kernel.times import utc_now
from ledger.models import Hold
from payments.deciding.operations import request_payment
from payments.deciding.requests import PaymentRequest
from payments.environment import payment_environment
from policy.operations import pause_agent
from tests.overspend.evidence import Kind
from tests.overspend.people import People
from tests.overspend.stage import Payer, Stage
from tests.support.factories import seen_by
from tests.support.local_ids import LOCALNET
from tests.support.storms import Shot

_THRESHOLD = Decimal("0.99")
_FIRST = 15
_HOUR, _SOON = timedelta(hours=1), timedelta(seconds=8)
_EXPIRING = 5


def payments_held(stage: Stage) -> None:
    """Ask from many processes for more than fits while people approve, decline, pause, or do nothing."""
    payers = [payer for _ in range(stage.world.size(3, 1)) for payer in _make_payers(stage)]
    count = stage.world.size(60, 30)
    paused, late = _asking(stage, day=str(count)), _asking(stage, day="9.99", approval_hours=1)
    early = [late.shot() for _ in range(_EXPIRING)]
    for shot in early:
        _hold_early(shot)
    shots = [payer.shot() for payer in payers for _ in range(stage.world.size(40, 16))]
    shots += [paused.shot() for _ in range(count)] + early
    with People([payer.account.agent for payer in stage.payers], stage.chance) as people:
        storm = stage.storm(shots)
        list(itertools.islice(storm, _FIRST))
        pause_agent(paused.account.agent, by="ann")
        paused.allow(day="0", since=utc_now())
        paused.close()
        list(storm)
        stage.insist()
        stage.strike([late.shot() for _ in range(2 * _EXPIRING)])
        stage.insist()
        stage.repeat(stage.world.size(60, 12))
    _look_at(stage, people)


def _make_payers(stage: Stage) -> list[Payer]:
    """Make agents that are stopped by each limit, all of which ask for 1.00 at a time."""
    kinds = ({"payments_per_day": 7}, {"hourly_limit": Decimal("7.99")}, {"total_limit": Decimal("7.99")})
    counted = [_asking(stage, day="1000", **more) for more in kinds]
    for payer in counted:
        payer.account.limits[0] = replace(payer.account.limits[0], day=Decimal("7.99"))
    return [
        *counted,
        _asking(stage, day="9.99"),
        _asking(stage, day="1000", week="9.99"),
        _asking(stage, day="1000", balance="7.99"),
        stage.payer(day="9.99", approval_above_day=Decimal(5)),
        stage.payer(day="5.99", approval_for_first=True),
    ]


def _asking(stage: Stage, **options: object) -> Payer:
    payer = stage.payer(approval_above=_THRESHOLD, **options)  # type: ignore[arg-type]
    payer.account.asks_above = _THRESHOLD
    return payer


def _hold_early(shot: Shot) -> None:
    """Have something held nearly an hour ago, so that it expires in the middle of the storm."""
    body, at = shot.body, utc_now() - _HOUR + _SOON
    request = PaymentRequest(
        agent_id=body["agentId"], service=body["service"], amount=Decimal(body["amount"]), amount_text=body["amount"],
        asset=Asset(body["asset"]), reason=body["reason"], metadata_json=None,
        idempotency_key=shot.idempotency_key, fingerprint=fingerprint(body),
    )  # fmt: skip
    with within_group_of(request.agent_id), seen_by(at, LOCALNET):
        request_payment(request, replace(payment_environment(), now=at))


def _look_at(stage: Stage, people: People) -> None:
    """See that the scenario has shown all that it is there to show."""
    for failure in people.failures:
        stage.complain(Kind.UNFIT, f"Somebody could not go on: {failure!r}")
    for payment_id, answers in people.answers.items():
        if answers != 1:
            stage.complain(Kind.DOUBLED, f"{payment_id} was answered {answers} times.")
    holds = Hold.objects.filter(agent__in=[payer.account.agent for payer in stage.payers])
    ends = Counter(holds.values_list("answer", "final_entry__result"))
    stage.expect(people.refused, "No two people answered the same.")
    for answer, result in (("approve", "approved"), ("decline", "blocked"), ("", "blocked")):
        stage.expect(ends[answer, result], f"Nothing that was held has ended with {answer or 'no answer'}.")
    expired = holds.filter(final_entry__explanation_json__contains="within 1 hour")
    stage.expect(expired.count() == _EXPIRING, f"{expired.count()} payments expired.")
    paused = holds.filter(final_entry__explanation_json__contains="paused")
    stage.expect(paused.exists(), "Nothing waited when its agent was paused.")

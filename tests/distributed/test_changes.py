"""Each kind of change is made on several servers as on one: asked for by one person, and confirmed by another."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from foundation import groups
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from payments.models import Deposit
from payments.reconciling.reconciliation import reconcile
from payments.settling.chain_switch import start_signing_on
from policy.limits import Limits
from policy.models import Agent, PolicyRevision
from policy.operations import switch_signer
from policy.proposals import propose_agent, propose_policy
from policy.revisions import limits_of
from services.served_chains import served_chains
from staff.kinds import kinds_of_a_shell
from staff.models import AuditEntry, ChangeRequest, RequestState
from staff.second_person import Proposal, confirm, propose
from tests.staff import scenes
from tests.staff.people import make_user
from tests.support.factories import decide, make_agent, new_address, new_name
from tests.support.local_ids import LOCALNET, SOLANA_LOCALNET

pytestmark = pytest.mark.long(30)


@pytest.fixture(autouse=True)
def compared(monkeypatch: pytest.MonkeyPatch, spread: None) -> Iterator[None]:
    """Let the escrows have been compared with the ledger, and all be in service again afterwards."""
    monkeypatch.setattr(scenes, "make_agent_with_surplus", make_agent)
    monkeypatch.setattr(scenes, "make_deposit_aside", make_deposit_aside)
    for chain in (LOCALNET, SOLANA_LOCALNET):
        assert reconcile(chain, served_chains()[chain])
    yield
    switch_signer(is_signing=True, by="test")
    start_signing_on(LOCALNET, by="test")


@pytest.fixture(params=sorted(kinds_of_a_shell()))
def proposal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Proposal:
    kind: str = request.param
    monkeypatch.setattr(scenes, "decide", decide_there)
    if kind == "template.change":
        monkeypatch.setattr(scenes, "make_agent", make_agent_of_first_group)
    return Proposal(kind, kind.partition(".")[0], "it", scenes.SCENES[kind](), [], "Ticket 7")


def make_deposit_aside() -> Deposit:
    facts = {"log_index": 0, "block_number": 1, "depositor": new_address(), "token": "USDC", "asset": "USDC"}
    return Deposit.objects.create(
        chain=LOCALNET, tx=new_name("tx"), amount=7, named_agent="nobody", state="aside", found_at=utc_now(), **facts
    )


def decide_there(agent: Agent, *request: Any) -> LogEntry:
    with groups.within_group_of(agent.pk):
        return decide(agent, *request)


def make_agent_of_first_group(**limits: Any) -> Agent:
    """Make agents until one is of the first group: only those of one group follow a template together."""
    while groups.group_of((agent := make_agent(**limits)).pk) != groups.every_group()[0]:
        pass
    return agent


def test_a_change_that_somebody_asks_for_is_made_once_another_person_confirms_it(proposal, settings):
    settings.FOUR_EYES = True
    ann, bea = make_user(is_superuser=True), make_user(is_superuser=True)
    request = propose(proposal, by=ann).request
    assert request is not None

    confirm(request.pk, by=bea)

    assert ChangeRequest.objects.get(pk=request.pk).state == RequestState.CONFIRMED
    assert AuditEntry.objects.filter(author=ann.username, confirmed_by=bea.username).exists()


def test_one_person_is_enough_where_four_eyes_are_off(proposal, settings):
    settings.FOUR_EYES = False
    ann = make_user(is_superuser=True)

    assert propose(proposal, by=ann).request is None

    assert AuditEntry.objects.filter(author=ann.username, reason="Ticket 7").exists()


def test_what_raises_limits_in_the_console_waits_for_a_second_person_whose_yes_holds_in_the_group(settings):
    settings.FOUR_EYES, settings.FOUR_EYES_ABOVE = True, {}
    ann, bea, agent = make_user(is_superuser=True), make_user(is_superuser=True), make_agent()
    with groups.within_group_of(agent.pk):
        seen = PolicyRevision.objects.select_related("agent").get(agent=agent)
    more = replace(limits_of(seen), daily_limit=Decimal(60))

    request = propose_policy(seen, more, shown=[("Daily limit", "60")], reason="Ticket 7", by=ann).request
    assert request is not None
    with pytest.raises(OperationRefused):
        confirm(request.pk, by=ann)
    confirm(request.pk, by=bea)

    with groups.within_group_of(agent.pk):
        assert [one.daily_limit for one in agent.revisions.order_by("number")] == [50, 60]
    with pytest.raises(OperationRefused):
        confirm(request.pk, by=bea)


def test_a_new_agent_with_limits_beyond_what_one_person_may_give_waits_for_another(settings):
    settings.FOUR_EYES, settings.FOUR_EYES_ABOVE = True, {Asset.USDC: Decimal(100)}
    ann = make_user(is_superuser=True)
    few, many = Limits(Decimal(1), Decimal(50), Decimal(60)), Limits(Decimal(1), Decimal(50), Decimal(90))

    def ask(limits: Limits) -> bool:
        return propose_agent(new_name("agent"), Asset.USDC, limits, shown=[], reason="R", by=ann).request is None

    # What single persons let in counts together, whatever groups their agents are in.
    assert [ask(few), ask(few), ask(many)] == [True, False, False]

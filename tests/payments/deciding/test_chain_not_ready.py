"""A payment that cannot be co-signed or prepared is a logged 503, and nothing moves."""

from datetime import timedelta

import pytest

from chains.port import SignerUnavailable
from foundation.kernel.errors import BudgetExceeded, PolicySignerUnavailable
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from payments.models import ChainState, Relayer, Settlement
from policy.operations import switch_signer
from policy.signer import local_signer
from tests.support.answers import error_of
from tests.support.factories import decide, make_agent, new_address
from tests.support.refusals import assert_logged, assert_nothing_moved, body_for

MILLISECOND = timedelta(milliseconds=1)


def lose_chain_state(_service):
    ChainState.objects.all().delete()


def let_chain_state_grow_stale(service):
    age = timedelta(seconds=86_400 + 10)
    ChainState.objects.filter(chain=service.chain).update(observed_at=utc_now() - age)


def disable_relayers(service):
    Relayer.objects.filter(chain=service.chain).update(is_enabled=False)


def derive_relayers_from_another_seed(service):
    for relayer in Relayer.objects.filter(chain=service.chain):
        Relayer.objects.filter(pk=relayer.pk).update(address=new_address())


@pytest.mark.parametrize(
    "trouble",
    [
        lose_chain_state,
        let_chain_state_grow_stale,
        disable_relayers,
        derive_relayers_from_another_seed,
    ],
)
def test_a_chain_that_cannot_be_prepared_for_is_503_logged_and_nothing_moves(api, agent, service, trouble):
    trouble(service)

    response = api.pay(body_for(agent, service))

    assert_logged(agent, error_of(response, 503, "policy_signer_unavailable"), "policy_signer_available")
    assert int(response["Retry-After"]) >= 1
    assert_nothing_moved(agent)


def test_chain_state_is_good_up_to_its_age(agent, service):
    observed_at = ChainState.objects.get(chain=service.chain).observed_at
    age = timedelta(seconds=60)

    with pytest.raises(PolicySignerUnavailable):
        decide(agent, service, at=observed_at + age + 2 * MILLISECOND, max_chain_state_age=age)
    other = make_agent()
    assert decide(other, service, at=observed_at + age - MILLISECOND, max_chain_state_age=age).result == "approved"


def test_a_stopped_signer_is_503_logged_and_nothing_moves(api, agent, service):
    switch_signer(is_signing=False, by="test")

    response = api.pay(body_for(agent, service))

    assert_logged(agent, error_of(response, 503, "policy_signer_unavailable"), "policy_signer_available")
    assert int(response["Retry-After"]) >= 1
    assert_nothing_moved(agent)
    switch_signer(is_signing=True, by="test")
    assert api.pay(body_for(agent, service)).status_code == 201


class SignerThatSealsOnly:
    """A policy signer that vouches for the log and co-signs nothing."""

    def __init__(self, *, seals):
        self.seals = seals
        self.key_id = local_signer().key_id

    def sign_receipt(self, document):
        if not self.seals:
            raise SignerUnavailable("Away.")
        return local_signer().sign_receipt(document)

    def cosign_digest(self, _digest):
        raise SignerUnavailable("Away.")


def test_a_signer_that_does_not_co_sign_leaves_a_blocked_entry(agent, service):
    with pytest.raises(PolicySignerUnavailable):
        decide(agent, service, signer=SignerThatSealsOnly(seals=True))

    assert [entry.rule for entry in LogEntry.objects.filter(agent=agent)] == ["policy_signer_available"]
    assert not Settlement.objects.filter(payments__agent=agent).exists()
    assert_nothing_moved(agent)


def test_a_signer_that_is_away_altogether_leaves_nothing(agent, service):
    with pytest.raises(PolicySignerUnavailable):
        decide(agent, service, signer=SignerThatSealsOnly(seals=False))

    assert not LogEntry.objects.filter(agent=agent).exists()
    assert_nothing_moved(agent)


def test_the_chain_is_woken_for_an_approved_payment_only(agent, service):
    woken: list[str] = []
    entry = decide(agent, service, wake=woken.append, key="k")
    decide(agent, service, wake=woken.append, key="k")
    with pytest.raises(BudgetExceeded):
        decide(agent, service, "11", wake=woken.append)

    assert (entry.result, woken) == ("approved", ["eip155:31337"])

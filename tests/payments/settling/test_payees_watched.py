"""The watcher looks at the accounts of approved payees where that matters."""

from datetime import timedelta

import pytest

from chains.port import IncludedPayment
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus
from payments.models import PayeeState, Payment, Settlement
from payments.reconciling.watcher import RECENT, observe
from policy.models import Agent
from services.models import Service
from services.operations import disable_service
from tests.support.factories import make_agent
from tests.support.fake_chain import make_fake_chain
from tests.support.payment_requests import make_service_on, pay_on
from tests.support.rent_chain import RentChain, make_sol_service, see

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


@pytest.fixture
def chain() -> RentChain:
    return RentChain(make_fake_chain(relayers=1, has_nonces=False).name, has_nonces=False)


@pytest.fixture
def agent() -> Agent:
    return make_agent(asset=Asset.SOL)


@pytest.fixture
def service(chain: RentChain) -> Service:
    return make_sol_service(chain)


def test_the_watcher_asks_about_the_approved_payees_of_its_chain_only(chain):
    wanted = make_sol_service(chain)
    unwanted = [make_sol_service(chain, status=status) for status in ("pending_approval", "rejected", "disabled")]
    unwanted.append(make_sol_service(make_fake_chain()))
    chain.payees = {one.address: {"lamports": 5} for one in (wanted, *unwanted)}

    observe(chain.name, chain)

    assert chain.asked_about == [(wanted.address, Asset.SOL)]
    seen = PayeeState.objects.get(chain=chain.name)
    assert (seen.address, seen.state) == (wanted.address, {"lamports": 5})
    assert utc_now() - seen.observed_at < MINUTE


def test_the_watcher_asks_once_about_an_account_that_several_services_have(chain):
    first = make_sol_service(chain)
    make_sol_service(chain, address=first.address)
    in_dollars = make_service_on(chain)
    Service.objects.filter(pk=in_dollars.pk).update(
        address=first.address, approved_recipient=f"{chain.name}:{first.address}"
    )
    chain.payees = {first.address: {"lamports": 5}}

    observe(chain.name, chain)

    assert sorted(chain.asked_about) == [(first.address, Asset.SOL), (first.address, Asset.USDC)]
    assert PayeeState.objects.filter(chain=chain.name).count() == 1


def test_looking_again_replaces_what_was_seen(chain, service):
    see(chain, service.address, 5, at=utc_now() - timedelta(days=1))
    chain.payees[service.address] = {"lamports": 7}

    observe(chain.name, chain)

    seen = PayeeState.objects.get(chain=chain.name)
    assert seen.state == {"lamports": 7}
    assert utc_now() - seen.observed_at < MINUTE


def test_a_payee_that_was_disabled_is_no_longer_looked_at_and_what_was_seen_of_it_grows_stale(chain, service):
    chain.payees[service.address] = {"lamports": 5}
    observe(chain.name, chain)
    before = PayeeState.objects.values().get(chain=chain.name)
    disable_service(service.id, by="test")
    chain.payees[service.address] = {"lamports": 0}

    observe(chain.name, chain)

    assert chain.asked_about == [(service.address, Asset.SOL)]
    assert PayeeState.objects.values().get(chain=chain.name) == before


@pytest.mark.parametrize(
    ("state", "settled", "found"),
    [
        ("signed", None, []),
        ("broadcast", None, []),
        ("included", None, [False]),
        ("expired", None, []),
        ("failed", None, []),
        ("final", timedelta(seconds=1), [True]),
        ("final", RECENT - MINUTE, [True]),
        ("final", RECENT + MINUTE, []),
    ],
)
def test_the_chain_is_told_what_landed_for_a_payee_lately(chain, agent, state, settled, found):
    payment = pay_on(chain, agent, make_sol_service(chain))
    if settled is not None:
        changes = {"status": PaymentStatus.SETTLED, "settled_at": utc_now() - settled}
        Payment.objects.filter(pk=payment.pk).update(**changes)
    Settlement.objects.filter(payments=payment).update(state=state)

    observe(chain.name, chain)

    raw = bytes(Settlement.objects.get(payments=payment).raw)
    assert chain.told == [IncludedPayment(raw, is_final=is_final) for is_final in found]


def test_the_chain_is_told_nothing_of_other_payees_and_chains(chain, agent, service):
    gone, elsewhere = make_sol_service(chain), RentChain(make_fake_chain(has_nonces=False).name, has_nonces=False)
    pay_on(chain, agent, gone)
    pay_on(elsewhere, agent, make_sol_service(elsewhere, address=service.address))
    disable_service(gone.id, by="test")
    Settlement.objects.filter(chain__in=(chain.name, elsewhere.name)).update(state="included")

    observe(chain.name, chain)

    assert chain.told == []


def test_a_chain_on_which_payees_do_not_matter_leaves_nothing_behind(chain):
    make_sol_service(chain)
    observe(chain.name, chain)
    assert not PayeeState.objects.filter(chain=chain.name).exists()

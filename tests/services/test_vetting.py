"""Who may be approved as a payee on Solana: what the address tells, and what the chain is asked."""

import logging

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from services.approvals import make_proposal
from services.dossiers import find_dossiers
from services.models import Service
from services.operations import Registration, approve_service, disable_service, register_service
from staff.second_person import confirm, propose
from tests.staff.people import make_user
from tests.support.fake_chain import FakeChain
from tests.support.payees import ESCROW, make_payee, new_vault, new_wallet, serve_devnet

pytestmark = pytest.mark.django_db
# What the adapter says of the escrow's own accounts, of which the configuration names one only.
OURS = "It is an account of the escrow."


@pytest.fixture
def devnet(monkeypatch: pytest.MonkeyPatch, settings) -> FakeChain:
    return serve_devnet(monkeypatch, settings)


def assert_pending(service: Service) -> None:
    service.refresh_from_db()
    assert (service.status, service.approved_recipient, service.decided_by) == ("pending_approval", "", "")


# --- What the chain says ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("asset", [Asset.SOL, Asset.USDC, Asset.PYUSD])
def test_a_wallet_that_the_chain_has_nothing_against_is_approved(devnet, asset):
    service = make_payee(asset=asset)

    approved = approve_service(service.id, by="anna")

    assert (approved.status, approved.approved_recipient) == ("approved", service.canonical_recipient)
    assert devnet.asked == ["find_objection"]


@pytest.mark.parametrize("objection", ["It is a token account, not a wallet.", "It is a mint.", OURS])
def test_what_the_chain_objects_to_is_not_approved_and_the_objection_is_told(devnet, objection):
    service = make_payee()
    devnet.objections[service.address] = objection

    with pytest.raises(OperationRefused) as refused:
        approve_service(service.id, by="anna")

    assert str(refused.value) == f"{service.id} cannot be paid at {service.address}: {objection}"
    assert_pending(service)


def test_the_command_tells_the_objection(devnet):
    service = make_payee()
    devnet.objections[service.address] = OURS

    with pytest.raises(CommandError, match=OURS):
        call_command("approve_service", service.id)

    assert_pending(service)


def test_a_chain_that_cannot_be_asked_approves_nobody_until_it_can(devnet, caplog):
    service = make_payee()
    devnet.is_away = True

    with caplog.at_level(logging.WARNING), pytest.raises(OperationRefused) as refused:
        approve_service(service.id, by="anna")

    assert "cannot be checked on its chain now, try again" in str(refused.value)
    assert service.address in caplog.text
    assert_pending(service)
    devnet.is_away = False
    assert approve_service(service.id, by="anna").status == "approved"


def test_a_disabled_service_is_looked_at_again_before_it_is_approved_again(devnet):
    service = make_payee()
    approve_service(service.id, by="anna")
    disable_service(service.id, by="anna")
    devnet.objections[service.address] = "It has become a token account."

    with pytest.raises(OperationRefused, match="has become a token account"):
        approve_service(service.id, by="anna")

    service.refresh_from_db()
    assert service.status == "disabled"


def test_what_can_be_told_without_the_chain_is_told_without_it(devnet):
    service = make_payee()
    approve_service(service.id, by="anna")
    devnet.asked.clear()

    with pytest.raises(OperationRefused, match="is approved; only"):
        approve_service(service.id, by="anna")
    with pytest.raises(OperationRefused, match="changed after it was shown"):
        approve_service(make_payee().id, by="anna", registration=2)

    assert devnet.asked == []


def test_the_chain_is_asked_under_no_lock_when_a_second_person_is_asked_for_and_when_one_confirms(
    devnet, settings, monkeypatch
):
    settings.FOUR_EYES = True
    service, depths, outside = make_payee(), [], len(connection.savepoint_ids)

    def find_objection(address: str) -> str | None:
        depths.append(len(connection.savepoint_ids))
        objection: str | None = devnet.objections.get(address)
        return objection

    monkeypatch.setattr(devnet, "find_objection", find_objection)
    ann, bea = make_user("services.change_service"), make_user("services.change_service")
    (dossier,) = find_dossiers([service])

    request = propose(make_proposal(dossier, service.registration, [], "R"), by=ann).request
    assert request is not None
    devnet.objections[service.address] = OURS
    with pytest.raises(OperationRefused, match=OURS):
        confirm(request.pk, by=bea)
    assert_pending(service)
    devnet.objections.clear()
    confirm(request.pk, by=bea)

    service.refresh_from_db()
    assert (service.status, service.decided_by) == ("approved", ann.username)
    assert depths == [outside] * 3


class ChangingChain(FakeChain):
    """While it is asked about a payee, somebody registers other recipients for it, one after the other."""

    meanwhile: tuple[str, ...] = ()

    def find_objection(self, address: str) -> str | None:
        service = Service.objects.get(address=address)
        for recipient in self.meanwhile:
            register_service(Registration(service.id, service.name, recipient, Asset.SOL))
        return super().find_objection(address)


@pytest.mark.parametrize("changes_back", [False, True])
@pytest.mark.parametrize("was_shown", [False, True])
def test_what_changed_while_the_chain_was_asked_is_not_approved(devnet, monkeypatch, changes_back, was_shown):
    service = make_payee()
    chain = ChangingChain(devnet.name)
    chain.meanwhile = (f"solana-devnet:{new_wallet()}", *([service.recipient] if changes_back else []))
    monkeypatch.setattr("services.vetting.served_chains", lambda: {chain.name: chain})

    with pytest.raises(OperationRefused, match=f"{service.id} was changed after it was shown"):
        approve_service(service.id, by="anna", registration=service.registration if was_shown else None)

    assert_pending(service)
    assert (service.recipient, service.registration) == (chain.meanwhile[-1], 1 + len(chain.meanwhile))


# --- Off the curve ----------------------------------------------------------------------------------------------------
def test_an_address_off_the_curve_registers_and_waits(devnet):
    assert make_payee(new_vault()).status == "pending_approval"


def test_an_address_off_the_curve_is_not_approved_and_the_way_to_do_so_is_named(devnet):
    service = make_payee(new_vault())

    with pytest.raises(OperationRefused, match="nobody can sign for it with a key") as refused:
        approve_service(service.id, by="anna")

    assert f"manage.py approve_service {service.id} --allow-off-curve" in str(refused.value)
    assert devnet.asked == []
    assert_pending(service)


def test_the_operator_may_allow_an_address_off_the_curve(devnet):
    service = make_payee(new_vault())

    with pytest.raises(CommandError, match="off the curve"):
        call_command("approve_service", service.id)
    call_command("approve_service", service.id, "--allow-off-curve")

    service.refresh_from_db()
    assert (service.status, service.approved_recipient) == ("approved", service.canonical_recipient)


def test_what_the_operator_allows_the_chain_may_still_object_to(devnet):
    service = make_payee(new_vault())
    devnet.objections[service.address] = "It is a token account, not a wallet."

    with pytest.raises(CommandError, match="It is a token account"):
        call_command("approve_service", service.id, "--allow-off-curve")

    assert_pending(service)


@pytest.mark.parametrize("address", [ESCROW, "mint"])
def test_what_became_ours_meanwhile_is_not_approved_whatever_is_allowed(devnet, settings, monkeypatch, address):
    service = make_payee(new_wallet() if address == "mint" else None)
    if address == "mint":
        serve_devnet(monkeypatch, settings, {Asset.USDC: service.address})
    else:
        Service.objects.filter(pk=service.pk).update(address=ESCROW)

    with pytest.raises(OperationRefused, match="contract of ours"):
        approve_service(service.id, by="anna", allow_off_curve=True)


def test_the_command_explains_what_it_allows(capsys):
    with pytest.raises(SystemExit):
        call_command("approve_service", "--help")

    said = " ".join(capsys.readouterr().out.split())
    assert "--allow-off-curve" in said
    assert "nobody can sign for it with a key" in said

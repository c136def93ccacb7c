"""Approve, reject and disable services.

Source: docs/contract.md, "Lifecycle" and "Services"; docs/background.md, "Traps", 15.
"""

from dataclasses import replace
from typing import Any

import pytest
from django.utils.html import escape

from foundation.kernel.assets import Asset
from services.models import Service
from services.operations import Registration, register_service
from tests.foundation.console.conftest import recorded
from tests.support.factories import make_service, new_address
from tests.support.fake_chain import FakeChain
from tests.support.payees import make_payee, new_vault, new_wallet, serve_devnet

SERVICE = "services_service"


def change(service: Service, **fields: Any) -> None:
    register_service(replace(Registration(service.id, service.name, service.recipient, Asset(service.asset)), **fields))
    service.refresh_from_db()


def test_what_will_be_approved_is_shown_first_and_nothing_happens_yet(finance):
    service = make_service(approved=False, webhook_url="https://hooks.example.com/?a=1&b=2")

    page = finance.try_to_act(SERVICE, "approve", service.id).content.decode()

    service.refresh_from_db()
    assert service.status == "pending_approval"
    for shown in (service.canonical_recipient, "USDC", escape(service.webhook_url), f'value="1 {service.id}"'):
        assert shown in page


def test_finance_approves_what_was_shown(finance):
    services = [make_service(approved=False), make_service(approved=False)]
    ids = [service.id for service in services]

    said = finance.act(SERVICE, "approve", *ids, shown=finance.look_before_approving(*ids))

    assert sorted(said) == sorted(f"Approved {service_id}." for service_id in ids)
    for service in services:
        service.refresh_from_db()
        assert (service.status, service.decided_by) == ("approved", finance.name)
        assert service.approved_recipient == service.canonical_recipient


@pytest.mark.parametrize(
    "changed",
    [
        {"recipient": f"evm-localnet:{new_address()}"},
        {"asset": Asset.EURC},
        {"webhook_url": "https://other.example.com"},
    ],
    ids=["recipient", "asset", "webhook"],
)
def test_a_registration_that_changed_after_it_was_shown_is_not_approved(finance, changed):
    service = make_service(approved=False)
    shown = finance.look_before_approving(service.id)
    change(service, **changed)

    said = finance.act(SERVICE, "approve", service.id, shown=shown)

    service.refresh_from_db()
    assert said == [f"{service.id} was changed after it was shown. Look at it again."]
    assert (service.status, service.approved_recipient) == ("pending_approval", "")


def test_a_registration_that_went_back_to_what_was_shown_is_a_change_too(finance):
    service = make_service(approved=False)
    shown, first = finance.look_before_approving(service.id), service.recipient
    change(service, recipient=f"evm-localnet:{new_address()}")
    change(service, recipient=first)

    finance.act(SERVICE, "approve", service.id, shown=shown)

    service.refresh_from_db()
    assert service.status == "pending_approval"


def test_only_what_was_shown_is_approved_whatever_is_selected(finance):
    seen, unseen = make_service(approved=False), make_service(approved=False)

    finance.act(SERVICE, "approve", seen.id, unseen.id, shown=finance.look_before_approving(seen.id))

    unseen.refresh_from_db()
    assert unseen.status == "pending_approval"


@pytest.mark.parametrize("shown", ["{id}", " {id}", "x {id}", "-1 {id}", "1"])
def test_an_approval_that_names_no_registration_approves_nothing(finance, shown):
    service = make_service(approved=False)

    finance.try_to_act(SERVICE, "approve", service.id, shown=shown.format(id=service.id))

    service.refresh_from_db()
    assert service.status == "pending_approval"


def test_one_refusal_does_not_hinder_the_others(finance):
    rejected, pending = make_service(approved=False), make_service(approved=False)
    finance.decide("reject", rejected.id)
    ids = (rejected.id, pending.id)

    said = finance.act(SERVICE, "approve", *ids, shown=finance.look_before_approving(*ids))

    assert sorted(said) == sorted(
        [f"Approved {pending.id}.", f"{rejected.id} is rejected; only a pending or disabled payee can be approved."]
    )


# --- What the chain says of a payee -----------------------------------------------------------------------------------
@pytest.fixture
def devnet(monkeypatch: pytest.MonkeyPatch, settings) -> FakeChain:
    return serve_devnet(monkeypatch, settings)


def test_what_the_chain_objects_to_is_told_and_does_not_hinder_the_others(devnet, finance):
    wallet, ours = make_payee(), make_payee()
    devnet.objections[ours.address] = "It is an account of the escrow."
    ids = (wallet.id, ours.id)

    said = finance.act(SERVICE, "approve", *ids, shown=finance.look_before_approving(*ids))

    assert sorted(said) == sorted(
        [f"Approved {wallet.id}.", f"{ours.id} cannot be paid at {ours.address}: It is an account of the escrow."]
    )
    for service, status in ((wallet, "approved"), (ours, "pending_approval")):
        service.refresh_from_db()
        assert service.status == status


def test_a_chain_that_cannot_be_asked_approves_nobody(devnet, finance):
    service = make_payee()
    devnet.is_away = True

    said = finance.act(SERVICE, "approve", service.id, shown=finance.look_before_approving(service.id))

    service.refresh_from_db()
    assert said == [f"{service.address} cannot be checked on its chain now, try again: No node answered."]
    assert service.status == "pending_approval"


def test_an_address_off_the_curve_is_marked_and_refused_with_the_command_that_allows_it(devnet, finance):
    service = make_payee(new_vault())
    command = f"manage.py approve_service {service.id} --allow-off-curve"

    page = finance.try_to_act(SERVICE, "approve", service.id).content.decode()
    said = finance.act(SERVICE, "approve", service.id, shown=finance.look_before_approving(service.id))

    service.refresh_from_db()
    assert "Off the curve" in page
    assert command in page
    assert len(said) == 1
    assert command in said[0]
    assert service.status == "pending_approval"


@pytest.mark.parametrize(
    "recipient", [f"solana-devnet:{new_wallet()}", f"evm-localnet:{new_address()}"], ids=["solana", "evm"]
)
def test_an_address_that_a_key_can_sign_for_is_not_marked(finance, recipient):
    service = make_service(recipient=recipient, approved=False)

    page = finance.try_to_act(SERVICE, "approve", service.id).content.decode()

    assert service.canonical_recipient in page
    assert "Off the curve" not in page


# --- Rejecting and disabling ------------------------------------------------------------------------------------------
def test_finance_rejects_a_pending_service(finance):
    service = make_service(approved=False)

    assert finance.decide("reject", service.id) == [f"Rejected {service.id}."]

    service.refresh_from_db()
    assert (service.status, service.decided_by) == ("rejected", finance.name)


def test_finance_disables_an_approved_service_and_approves_it_again(finance):
    service = make_service()

    assert finance.decide("disable", service.id) == [f"Disabled {service.id}."]
    service.refresh_from_db()
    assert (service.status, service.decided_by) == ("disabled", finance.name)

    finance.act(SERVICE, "approve", service.id, shown=finance.look_before_approving(service.id))
    service.refresh_from_db()
    assert service.status == "approved"


@pytest.mark.parametrize(
    ("action", "approved"), [("reject", True), ("disable", False), ("enable", True), ("reopen", True)]
)
def test_what_the_present_state_does_not_admit_is_refused_in_a_sentence(finance, action, approved):
    service = make_service(approved=approved)

    said = finance.decide(action, service.id)

    assert len(said) == 1
    assert said[0].startswith(f"{service.id} is {service.status}")


def test_a_decision_is_kept_in_the_audit(finance):
    service = make_service()
    finance.decide("disable", service.id, reason="An unpaid bill")

    assert recorded(service.id)[-1] == ("service.disabled", finance.name)
    page = finance.get(f"{SERVICE}_change", service.id).content.decode()

    assert page.count("An unpaid bill") == 2  # with the registration, and in the audit
    assert finance.name in page


def test_a_name_is_shown_as_text_and_keeps_its_writing_direction_to_itself(finance):
    service = make_service(approved=False)
    change(service, name="\u202e<script>alert(1)</script>")

    for page in (finance.get(f"{SERVICE}_changelist"), finance.try_to_act(SERVICE, "approve", service.id)):
        assert "<bdi>\u202e&lt;script&gt;alert(1)&lt;/script&gt;</bdi>" in page.content.decode()

"""The life of a service: `pending_approval → approved | rejected`, `approved ↔ disabled`, and back from `rejected`."""

from collections.abc import Callable
from functools import partial

import pytest
from django.db import IntegrityError, transaction

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused, ServiceNotApproved
from services.models import Service
from services.operations import (
    Registration,
    approve_service,
    disable_service,
    enable_service,
    register_service,
    reject_service,
    reopen_service,
)
from tests.support.factories import decide, make_service, new_address

STEPS: dict[str, Callable[..., Service]] = {
    "approve": approve_service,
    "reject": reject_service,
    "disable": disable_service,
    "enable": enable_service,
    "reopen": partial(reopen_service, reason="They called"),
}
ALLOWED = {
    "pending_approval": {"approve": "approved", "reject": "rejected"},
    "approved": {"disable": "disabled"},
    "disabled": {"approve": "approved", "enable": "approved"},
    "rejected": {"reopen": "pending_approval"},
}
ROAD = {"pending_approval": [], "approved": ["approve"], "disabled": ["approve", "disable"], "rejected": ["reject"]}


def service_that_is(status):
    service = make_service(approved=False)
    for step in ROAD[status]:
        STEPS[step](service.id, by="test")
    service.refresh_from_db()
    assert service.status == status
    return service


@pytest.mark.parametrize("status", ROAD)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.django_db
def test_a_service_goes_only_where_its_state_allows(status, step):
    service = service_that_is(status)

    if step in ALLOWED[status]:
        assert STEPS[step](service.id, by="anna").status == ALLOWED[status][step]
    else:
        with pytest.raises(OperationRefused, match=service.id):
            STEPS[step](service.id, by="anna")
    service.refresh_from_db()
    assert service.status == ALLOWED[status].get(step, status)


@pytest.mark.parametrize("status", ROAD)
def test_only_an_approved_service_is_paid(agent, status):
    service = service_that_is(status)

    if status == "approved":
        assert decide(agent, service).result == "approved"
    else:
        with pytest.raises(ServiceNotApproved):
            decide(agent, service)


@pytest.mark.django_db
def test_a_decision_records_who_took_it_and_when():
    service = make_service(approved=False)

    decided = approve_service(service.id, by="anna")

    assert (decided.decided_by, decided.decided_at is not None) == ("anna", True)
    assert decided.approved_recipient == service.canonical_recipient


@pytest.mark.parametrize("step", STEPS.values())
@pytest.mark.django_db
def test_a_service_that_does_not_exist_cannot_be_decided_on(step):
    with pytest.raises(OperationRefused, match="There is no service nobody"):
        step("nobody", by="test")


@pytest.mark.django_db
def test_a_registration_that_changed_after_it_was_shown_is_not_approved():
    shown = make_service(approved=False)
    register_service(Registration(shown.id, "A shop", f"evm-localnet:{new_address()}", Asset.USDC))

    with pytest.raises(OperationRefused, match="changed after it was shown"):
        approve_service(shown.id, by="anna", registration=shown.registration)
    assert Service.objects.get(pk=shown.id).status == "pending_approval"
    assert approve_service(shown.id, by="anna", registration=shown.registration + 1).status == "approved"


@pytest.mark.parametrize(("step", "status"), [("reject", "pending_approval"), ("disable", "approved"),
                                              ("enable", "disabled"), ("reopen", "rejected")])  # fmt: skip
@pytest.mark.django_db
def test_whatever_is_decided_is_decided_on_what_was_shown(step, status):
    shown = service_that_is(status)

    with pytest.raises(OperationRefused, match="changed after it was shown"):
        STEPS[step](shown.id, by="anna", registration=shown.registration + 1)
    shown.refresh_from_db()
    assert shown.status == status
    STEPS[step](shown.id, by="anna", registration=shown.registration)


@pytest.mark.parametrize("reason", ["", "  "])
@pytest.mark.django_db
def test_what_was_rejected_is_not_taken_up_again_without_a_reason(reason):
    service = service_that_is("rejected")

    with pytest.raises(OperationRefused, match="Give a reason"):
        reopen_service(service.id, by="anna", reason=reason)


@pytest.mark.parametrize(
    ("recipient", "asset"),
    [
        ("base:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", Asset.USDC),
        ("polygon:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", Asset.USDC),
        ("solana-testnet:7EcDhSYGxXyscszYEp35KHN8vvw3svAuLKTzXwCFLtV", Asset.USDC),
        ("evm-localnet:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", Asset.SOL),
    ],
)
@pytest.mark.django_db
def test_a_service_that_cannot_be_paid_here_cannot_be_approved(recipient, asset):
    service = make_service(recipient=recipient, asset=asset, approved=False)

    with pytest.raises(OperationRefused, match="not serve"):
        approve_service(service.id, by="test")
    assert Service.objects.get(pk=service.id).status == "pending_approval"


@pytest.mark.django_db
def test_a_contract_that_became_ours_meanwhile_cannot_be_approved(settings):
    service = make_service(approved=False)
    served = settings.CHAINS["eip155:31337"]
    # Another installation's database, or a new escrow: registration could not have known.
    Service.objects.filter(pk=service.id).update(address=served.escrow)

    with pytest.raises(OperationRefused, match="contract of ours"):
        approve_service(service.id, by="test")


@pytest.mark.django_db
def test_the_database_refuses_an_approval_that_survives_a_changed_recipient():
    service = make_service()

    with pytest.raises(IntegrityError, match="service_approval_covers_recipient"), transaction.atomic():
        Service.objects.filter(pk=service.id).update(address="0x000000000000000000000000000000000000dEaD")

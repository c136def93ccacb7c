"""Approve payees with four eyes, see what is known of them, and who may do what.

Source: docs/contract.md, "Lifecycle" and "Services"; docs/background.md, "Traps", 15 and 16.
"""

import re
from dataclasses import replace

import pytest
from django.contrib.auth.models import User

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from policy.models import ApiKey
from services.models import Service
from services.operations import Registration, approve_service, disable_service, register_service, reject_service
from staff.models import AuditEntry, ChangeRequest
from staff.second_person import confirm
from tests.support.factories import make_service, new_address, new_name

SERVICE = "services_service"
OLD, NEW = (f"evm-localnet:0x8c2bd4bb4a413e7d4719c811a309b3ac5877b4{end}" for end in ("74", "ff"))


@pytest.fixture(autouse=True)
def four_eyes(settings):
    settings.FOUR_EYES = True


@pytest.fixture
def changed(db) -> Registration:
    """A registration of an approved payee whose address has changed since."""
    first = Registration(new_name("shop"), "A shop", OLD, Asset.USDC, "https://shop.example/hook")
    register_service(first)
    approve_service(first.id, by="anna", reason="Contract 7")
    second = replace(first, recipient=NEW, webhook_url="https://shop1.example/hook")
    register_service(second)
    return second


def status_of(service_id):
    return Service.objects.get(pk=service_id).status


def request_about(service_id):
    return ChangeRequest.objects.get(subject=service_id)


def person(somebody):
    return User.objects.get(username=somebody.name)


# --- Four eyes --------------------------------------------------------------------------------------------------------
def test_one_person_alone_does_not_approve_a_changed_recipient(finance, changed):
    (said,) = finance.decide("approve", changed.id, reason="They moved")

    assert "a second person has to confirm this" in said
    assert status_of(changed.id) == "pending_approval"
    request = request_about(changed.id)
    assert (request.kind, request.asked_by, request.reason) == ("service.approve", finance.name, "They moved")
    assert request.arguments == {"service": changed.id, "registration": 2}
    with pytest.raises(OperationRefused, match="somebody else"):
        confirm(request.pk, by=person(finance))


def test_the_second_person_sees_what_the_first_saw_and_approves_it(finance, make_person, changed):
    page = finance.try_to_act(SERVICE, "approve", changed.id).content.decode()
    finance.decide("approve", changed.id, reason="They moved")
    request = request_about(changed.id)
    for _, shown in request.shown[:2]:
        assert shown in page
    assert dict(request.shown)["Why a second person"] in page

    confirm(request.pk, by=person(second := make_person(group="Finance")))

    service = Service.objects.get(pk=changed.id)
    assert (service.status, service.decided_by) == ("approved", finance.name)
    entry = AuditEntry.objects.get(subject=changed.id, action="service.approved", author=finance.name)
    assert (entry.confirmed_by, entry.reason) == (second.name, "They moved")


def test_what_changes_between_asking_and_confirming_is_not_approved(finance, make_person, changed):
    finance.decide("approve", changed.id)
    register_service(replace(changed, recipient=f"evm-localnet:{new_address()}"))
    register_service(changed)

    with pytest.raises(OperationRefused, match="changed after it was shown"):
        confirm(request_about(changed.id).pk, by=person(make_person(group="Finance")))
    assert status_of(changed.id) == "pending_approval"


def test_what_changes_between_page_and_click_is_not_even_asked_for(finance, changed):
    seen = finance.look_before("approve", changed.id)
    register_service(replace(changed, recipient=f"evm-localnet:{new_address()}"))

    (said,) = finance.act(SERVICE, "approve", changed.id, **seen, reason="R")

    assert said == f"{changed.id} was changed after it was shown. Look at it again."
    assert not ChangeRequest.objects.filter(subject=changed.id).exists()


def test_what_was_rejected_meanwhile_is_not_approved_by_a_second_person(finance, make_person, changed):
    finance.decide("approve", changed.id)
    reject_service(changed.id, by="ben", reason="No")

    with pytest.raises(OperationRefused, match="is rejected"):
        confirm(request_about(changed.id).pk, by=person(make_person(group="Finance")))


def test_the_same_is_not_asked_for_twice(finance, changed):
    finance.decide("approve", changed.id)

    (said,) = finance.decide("approve", changed.id)

    assert said == f"{finance.name} asked for this already: a second person has to confirm it."
    assert "Waits for a second person" in finance.get(f"{SERVICE}_change", changed.id).content.decode()


def test_a_request_that_has_expired_does_not_hinder_the_next(finance, changed):
    finance.decide("approve", changed.id)
    ChangeRequest.objects.filter(subject=changed.id).update(expires_at=utc_now())

    (said,) = finance.decide("approve", changed.id)

    assert "a second person has to confirm this" in said


@pytest.mark.parametrize("posted", [{}, {"reason": "R"}, {"seen": ["forged:x"], "reason": "R"}])
def test_a_request_by_hand_does_not_get_around_the_second_person(finance, changed, posted):
    finance.try_to_act(SERVICE, "approve", changed.id, shown=f"2 {changed.id}", **posted)

    assert status_of(changed.id) == "pending_approval"
    assert not ChangeRequest.objects.filter(subject=changed.id).exists()


def test_without_a_reason_it_is_asked_for_again(finance, changed):
    page = finance.try_to_act(SERVICE, "approve", changed.id, **finance.look_before("approve", changed.id), reason=" ")

    assert "This field is required." in page.content.decode()
    assert not ChangeRequest.objects.filter(subject=changed.id).exists()


def test_a_new_payee_at_a_lookalikes_address_is_called_out_and_needs_a_second_person(finance):
    known, _ = register_service(Registration(new_name("known"), "Known & Sons", OLD, Asset.USDC, None))
    approve_service(known.id, by="anna")
    like_it, _ = register_service(Registration(new_name("new"), "New", NEW, Asset.USDC, None))

    page = finance.try_to_act(SERVICE, "approve", like_it.id).content.decode()
    finance.decide("approve", like_it.id)

    assert "Can be taken for another payee" in page
    assert known.id in page
    assert "Known &amp; Sons" in page
    assert "<mark>74</mark>" in page
    assert "<mark>fF</mark>" in page or "<mark>ff</mark>" in page.lower()
    assert status_of(like_it.id) == "pending_approval"


def test_some_of_several_may_need_a_second_person(finance, changed):
    moved = Registration(new_name("hook"), "A shop", f"evm-localnet:{new_address()}", Asset.USDC, None)
    register_service(moved)
    approve_service(moved.id, by="anna")
    register_service(replace(moved, webhook_url="https://shop.example/hook"))

    said = finance.decide("approve", changed.id, moved.id)

    assert sorted("second person" in one for one in said) == [False, True]
    assert (status_of(moved.id), status_of(changed.id)) == ("approved", "pending_approval")


def test_a_first_approval_takes_two(finance, make_person):
    new = make_service(approved=False)

    page = finance.try_to_act(SERVICE, "approve", new.id).content.decode()
    (said,) = finance.decide("approve", new.id)

    assert "It was never approved before." in page
    assert "Ask for approval of 1 payee" in page
    assert "a second person has to confirm this" in said
    assert status_of(new.id) == "pending_approval"
    confirm(request_about(new.id).pk, by=person(make_person(group="Finance")))
    assert status_of(new.id) == "approved"


def test_a_payee_is_enabled_again_by_one_person(finance):
    service = make_service()
    disable_service(service.id, by="anna")

    assert finance.decide("enable", service.id) == [f"Enabled {service.id}."]
    assert status_of(service.id) == "approved"


def test_where_four_eyes_are_off_one_person_is_enough(finance, changed, settings):
    settings.FOUR_EYES = False

    assert finance.decide("approve", changed.id) == [f"Approved {changed.id}."]


# --- What is shown ----------------------------------------------------------------------------------------------------
def test_what_was_approved_last_stands_beside_what_is_asked_now(finance, changed):
    ApiKey.objects.create(id="key_sync", name="catalogue sync", digest=b"d" * 32, scopes=[], created_at=utc_now())
    register_service(replace(changed, name="Another shop"), key_id="key_sync")

    for page in (finance.try_to_act(SERVICE, "approve", changed.id), finance.get(f"{SERVICE}_change", changed.id)):
        html = page.content.decode()
        assert re.search(r"0x[0-9a-fA-F]{38}<mark>74</mark>.*0x[0-9a-fA-F]{38}<mark>[fF]{2}</mark>", html, re.DOTALL)
        assert "2 of 42 characters differ: character 41 was “7”" in html
        assert "shop1.example instead of shop.example" in html
        assert "“catalogue sync” (key_sync)" in html
        assert "Contract 7" in html


def test_others_at_the_same_address_are_named(finance):
    one = make_service()
    other = make_service(recipient=one.recipient, approved=False)

    page = finance.try_to_act(SERVICE, "approve", other.id).content.decode()

    assert f">{one.id}</a>" in page


def test_an_address_is_linked_to_its_chains_explorer(finance):
    service = make_service(recipient="base:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", approved=False)

    page = finance.try_to_act(SERVICE, "approve", service.id).content.decode()

    assert 'href="https://basescan.org/address/0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"' in page


def test_the_page_of_a_payee_has_all_its_registrations_and_decisions_and_its_audit(auditor, changed):
    reject_service(changed.id, by="ben", reason="Call them first")

    page = auditor.get(f"{SERVICE}_change", changed.id).content.decode()

    assert page.count("Contract 7") >= 2
    assert page.count("Call them first") == 2
    for address in (OLD, NEW):
        assert address.partition(":")[2] in page.lower()


@pytest.mark.parametrize(
    ("status", "actions"),
    [
        ("pending", {"approve", "reject", "tag"}),
        ("approved", {"disable", "tag"}),
        ("disabled", {"enable", "tag"}),
        ("rejected", {"reopen", "tag"}),
    ],
)
def test_the_page_of_a_payee_has_the_buttons_that_its_status_admits(finance, auditor, status, actions):
    service = make_service(approved=status in ("approved", "disabled"))
    for name, decide in (("disabled", disable_service), ("rejected", reject_service)):
        if name == status:
            decide(service.id, by="anna")

    buttons = 'name="action" value="([a-z]+)"'
    assert set(re.findall(buttons, finance.get(f"{SERVICE}_change", service.id).content.decode())) == actions
    assert re.findall(buttons, auditor.get(f"{SERVICE}_change", service.id).content.decode()) == []


# --- The list ---------------------------------------------------------------------------------------------------------
def test_those_that_wait_stand_first_and_those_that_wait_longest_before_the_others(finance):
    approved, first = make_service(), make_service(approved=False)
    second, rejected = make_service(approved=False), make_service(approved=False)
    reject_service(rejected.id, by="anna")

    page = finance.get(f"{SERVICE}_changelist").content.decode()

    places = [page.index(f">{service.id}</a>") for service in (first, second)]
    assert places == sorted(places)
    assert max(places) < min(page.index(f">{service.id}</a>") for service in (approved, rejected))


def test_the_list_is_filtered_by_status_chain_and_asset(finance):
    here = make_service(approved=False)
    there = make_service(recipient="base:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", asset=Asset.EURC, approved=False)

    for query, shown, hidden in (
        ({"chain": "eip155:8453"}, there, here),
        ({"asset__exact": "USDC"}, here, there),
        ({"asset__exact": "EURC", "status__exact": "pending_approval"}, there, here),
    ):
        page = finance.get(f"{SERVICE}_changelist", **query).content.decode()
        assert f">{shown.id}</a>" in page
        assert f">{hidden.id}</a>" not in page


@pytest.mark.parametrize("action", ["approve", "reject", "disable", "enable", "reopen"])
def test_an_auditor_decides_nothing(auditor, changed, action):
    response = auditor.try_to_act(SERVICE, action, changed.id, shown=f"2 {changed.id}", reason="R")

    assert response.status_code == 403
    assert status_of(changed.id) == "pending_approval"

"""Which approvals need a second person: the rule, and the ways around it that are closed."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from services.approvals import APPROVAL, facts_of, perform, why_second_person
from services.dossiers import find_dossiers
from services.models import RegistrationRecord, Service, ServiceDecision
from services.operations import (
    Registration,
    approve_service,
    disable_service,
    enable_service,
    register_service,
    reject_service,
    reopen_service,
    set_tags,
)
from staff.kinds import find_kind
from tests.support.factories import new_address, new_name

pytestmark = pytest.mark.django_db
ADDRESS = "evm-localnet:0x8c2bd4bb4a413e7d4719c811a309b3ac5877b474"
LIKE_IT = "evm-localnet:0x8c2bd4bb4a413e7d4719c811a309b3ac5877b4ff"
ANOTHER_ADDRESS = "It is to be paid at another address than the one that was approved last."
ANOTHER_ASSET = "It is to be paid in another asset than the one that was approved last."
UNKNOWN = "It was changed before registrations were kept: what was approved earlier is not known."
NEVER = "It was never approved before."
TAGGED = "It has tags: agents whose policies allow one of them can pay it as soon as it is approved."
LOOKALIKE = "Its address can be taken for that of another payee."


@pytest.fixture
def first() -> Registration:
    return Registration(new_name("shop"), "A shop", f"evm-localnet:{new_address()}", Asset.USDC, None)


@pytest.fixture
def approved(first: Registration) -> Registration:
    """A registration that was approved."""
    register_service(first)
    approve_service(first.id, by="anna")
    return first


def why(service_id):
    return why_second_person(dossier_of(service_id))


def dossier_of(service_id):
    (dossier,) = find_dossiers([Service.objects.get(pk=service_id)])
    return dossier


def change(registration: Registration, **fields: Any) -> Registration:
    changed: Registration = replace(registration, **fields)
    register_service(changed)
    return changed


@pytest.mark.parametrize("above", [{}, {Asset.USDC: Decimal(10**9)}])
def test_a_first_approval_needs_one_where_four_eyes_are_on_whatever_the_threshold_is(first, settings, above):
    settings.FOUR_EYES_ABOVE = above
    register_service(first)
    assert why(first.id) == []

    settings.FOUR_EYES = True
    assert why(first.id) == [NEVER]
    approve_service(first.id, by="anna")
    assert why(first.id) == []


@pytest.mark.parametrize(
    ("fields", "reasons"),
    [
        ({"name": "Another"}, []),
        ({"webhook_url": "https://other.example"}, []),
        ({"recipient": ADDRESS}, [ANOTHER_ADDRESS]),
        ({"asset": Asset.EURC}, [ANOTHER_ASSET]),
        ({"recipient": ADDRESS, "asset": Asset.EURC}, [ANOTHER_ADDRESS, ANOTHER_ASSET]),
    ],
)
def test_a_changed_recipient_or_asset_needs_one(approved, fields, reasons):
    change(approved, **fields)

    assert why(approved.id) == reasons


def test_a_payee_with_tags_needs_one_though_it_is_to_be_paid_where_it_was_approved(approved, settings):
    set_tags(approved.id, ["data"], by="anna")
    change(approved, webhook_url="https://other.example")
    assert why(approved.id) == []

    settings.FOUR_EYES = True
    assert why(approved.id) == [TAGGED]
    approve_service(approved.id, by="anna")
    disable_service(approved.id, by="anna")
    # To enable it approves nobody.
    assert why(approved.id) == []


def test_the_same_address_on_another_chain_needs_one(approved):
    change(approved, recipient=approved.recipient.replace("evm-localnet", "base"))

    assert why(approved.id) == [ANOTHER_ADDRESS]


def test_a_disabled_payee_with_the_same_recipient_needs_none(approved):
    disable_service(approved.id, by="anna")

    assert why(approved.id) == []
    enable_service(approved.id, by="anna")


def test_a_return_to_what_was_approved_last_needs_none_and_to_what_was_approved_before_needs_one(approved):
    second = change(approved, recipient=ADDRESS)
    change(second, recipient=approved.recipient)
    assert why(approved.id) == []

    change(approved, recipient=ADDRESS)
    approve_service(approved.id, by="anna")
    change(approved)
    assert why(approved.id) == [ANOTHER_ADDRESS]


# --- Ways around ------------------------------------------------------------------------------------------------------
def test_rejecting_and_taking_up_again_makes_no_new_payee(approved):
    change(approved, recipient=ADDRESS)
    reject_service(approved.id, by="anna")
    reopen_service(approved.id, by="anna", reason="R")

    assert why(approved.id) == [ANOTHER_ADDRESS]


def test_rejecting_and_taking_up_again_is_no_first_approval(first, settings):
    settings.FOUR_EYES = True
    register_service(first)
    reject_service(first.id, by="anna")
    reopen_service(first.id, by="anna", reason="R")

    assert why(first.id) == [NEVER]


def test_disabling_before_the_change_makes_no_new_payee(approved):
    disable_service(approved.id, by="anna")
    change(approved, recipient=ADDRESS)

    assert why(approved.id) == [ANOTHER_ADDRESS]


def test_changing_in_small_steps_makes_no_new_payee(approved):
    step = change(approved, webhook_url="https://other.example", name="Another")
    step = change(step, recipient=ADDRESS)
    reject_service(approved.id, by="anna")
    change(step, name="A third", webhook_url=None)

    assert why(approved.id) == [ANOTHER_ADDRESS]


@pytest.mark.parametrize("is_disabled", [False, True])
def test_a_new_id_at_an_address_that_can_be_taken_for_an_approved_payees_needs_one(first, is_disabled):
    known, _ = register_service(replace(first, id=new_name("known"), recipient=ADDRESS))
    approve_service(known.id, by="anna")
    if is_disabled:
        disable_service(known.id, by="anna")
    register_service(replace(first, recipient=LIKE_IT))

    (lookalike,) = dossier_of(first.id).lookalikes
    assert why(first.id) == [LOOKALIKE]
    assert lookalike.service.id == known.id
    assert "2 of 42 characters differ" in lookalike.sentence


def test_an_address_that_a_payee_was_approved_at_earlier_counts(first):
    known, _ = register_service(replace(first, id=new_name("known"), recipient=ADDRESS))
    approve_service(known.id, by="anna")
    register_service(replace(first, id=known.id))
    register_service(replace(first, recipient=LIKE_IT))

    (lookalike,) = dossier_of(first.id).lookalikes
    assert "approved there earlier, now pending approval at another address" in lookalike.sentence
    assert why(first.id) == [LOOKALIKE]


def test_who_was_never_approved_is_nobody_to_be_taken_for(first):
    known, _ = register_service(replace(first, id=new_name("known"), recipient=ADDRESS))
    reject_service(known.id, by="anna")
    register_service(replace(first, recipient=LIKE_IT))

    assert why(first.id) == []


def test_the_very_same_address_is_named_and_needs_none(first):
    known, _ = register_service(replace(first, id=new_name("known"), recipient=ADDRESS))
    approve_service(known.id, by="anna")
    register_service(replace(first, recipient=ADDRESS.replace("evm-localnet", "base")))

    dossier = dossier_of(first.id)
    assert [other.id for other in dossier.same_address] == [known.id]
    assert (dossier.lookalikes, why(first.id)) == ([], [])


def test_what_was_changed_before_registrations_were_kept_needs_one(first):
    now, (chain, address) = utc_now(), ("eip155:31337", new_address())
    content = {"name": "N", "recipient": f"{chain}:{address}", "chain": chain, "address": address, "asset": "USDC"}
    service = Service.objects.create(id=first.id, registration=3, created_at=now, updated_at=now, **content)
    RegistrationRecord.objects.create(service=service, number=3, pieces=[], registered_at=now, **content)

    assert why(first.id) == [UNKNOWN]


# --- What the second person confirms ----------------------------------------------------------------------------------
def test_the_kind_is_known_to_the_console():
    assert find_kind("service.approve") is APPROVAL
    assert APPROVAL.permission == "services.change_service"


def test_it_approves_the_registration_that_was_shown_and_no_later_one(approved):
    change(approved, recipient=ADDRESS)
    arguments = {"service": approved.id, "registration": 2}
    step = change(approved, recipient=LIKE_IT)

    with pytest.raises(OperationRefused, match="changed after it was shown"):
        perform(arguments, "anna", "R")
    change(step, recipient=ADDRESS)
    with pytest.raises(OperationRefused, match="changed after it was shown"):
        perform(arguments, "anna", "R")
    assert perform({**arguments, "registration": 4}, "anna", "R") == f"Approved {approved.id}."
    last = ServiceDecision.objects.filter(registration__service=approved.id).first()
    assert last is not None
    assert (last.decided_by, last.reason) == ("anna", "R")


def test_the_second_person_is_told_what_differs_and_why(approved):
    change(approved, recipient=ADDRESS, webhook_url="https://other.example/hook")

    facts = facts_of(dossier_of(approved.id))
    told = dict(facts)
    assert told["Payee"] == approved.id
    old = approved.recipient.partition(":")[2]
    assert "approved last" in told["Address"]
    assert old in told["Address"].lower()
    assert told["Registration"].startswith("number 2")
    assert told["Webhook host"].startswith("other.example instead of none")
    assert ("Why a second person", ANOTHER_ADDRESS) in facts


def test_as_many_queries_are_needed_for_many_as_for_one(first, django_assert_num_queries):
    services = [register_service(replace(first, id=new_name("shop")))[0] for _ in range(5)]
    for service in services[:3]:
        approve_service(service.id, by="anna")

    with django_assert_num_queries(9):
        find_dossiers(services)
    with django_assert_num_queries(9):
        find_dossiers(services[:1])

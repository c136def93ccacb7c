"""What is risky about a payee is seen: in the list, on the button, and by the second person as by the first."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from services.models import Service
from services.operations import Registration, approve_service, register_service
from staff.models import ChangeRequest
from staff.second_person import LIFETIME
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


def request_about(service_id):
    return ChangeRequest.objects.get(subject=service_id)


def test_the_second_person_has_the_comparison_that_the_first_one_had_and_the_reason_before_it(
    finance, make_person, changed
):
    known, _ = register_service(Registration(new_name("known"), "Known", f"{OLD[:-1]}5", Asset.USDC, None))
    approve_service(known.id, by="anna")
    first = finance.try_to_act(SERVICE, "approve", changed.id).content.decode()
    finance.decide("approve", changed.id, reason="They have moved")

    second = page_of_request(make_person(group="Finance"), changed.id)

    for page in (first, second):
        assert re.search(r"0x[0-9a-fA-F]{38}<mark>74</mark>.*0x[0-9a-fA-F]{38}<mark>[fF]{2}</mark>", page, re.DOTALL)
        assert "Can be taken for another payee" in page
        assert "2 of 42 characters differ: character 41 was “7”" in page
        assert "shop1.example instead of shop.example" in page
    places = [
        second.index(words) for words in ("They have moved", "Can be taken for", "<mark>74</mark>", "<summary>As it")
    ]
    assert places == sorted(places)
    assert "Not as " not in second


def test_the_second_person_can_look_at_the_address_in_the_explorer(finance, make_person):
    first = Registration(new_name("shop"), "A", "base:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", Asset.USDC, None)
    register_service(first)
    Service.objects.filter(pk=first.id).update(status="rejected")
    request = ChangeRequest.objects.create(
        kind="service.approve", subject_type="service", subject=first.id, shown=[], reason="R", asked_by="ann",
        arguments={"service": first.id, "registration": 1}, asked_at=utc_now(), expires_at=utc_now() + LIFETIME,
    )  # fmt: skip

    page = make_person(group="Finance").get("staff_changerequest_change", str(request.pk)).content.decode()

    assert 'href="https://basescan.org/address/0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"' in page


def test_what_is_not_any_more_as_the_first_person_saw_it_is_named_to_the_second(finance, make_person, changed):
    finance.decide("approve", changed.id)
    like_it, _ = register_service(Registration(new_name("like"), "Like", f"{NEW[:-1]}e", Asset.USDC, None))
    approve_service(like_it.id, by="anna")

    second = page_of_request(make_person(group="Finance"), changed.id)

    assert f"<strong>Not as {finance.name} saw it:</strong> Can be taken for" in second


def test_a_registration_that_was_not_asked_about_is_not_shown_as_if_it_was(finance, make_person, changed):
    finance.decide("approve", changed.id)
    register_service(replace(changed, recipient=f"evm-localnet:{new_address()}"))

    second = page_of_request(make_person(group="Finance"), changed.id)

    assert "This is not any more what" in second
    assert "<mark>" not in second


def make_with_new_webhook():
    """Make a payee whose webhook alone has changed since it was approved: one person approves that."""
    first = Registration(new_name("hook"), "A shop", f"evm-localnet:{new_address()}", Asset.USDC, None)
    register_service(first)
    approve_service(first.id, by="anna")
    register_service(replace(first, webhook_url="https://shop.example/hook"))
    return first.id


def page_of_request(somebody, service_id):
    return somebody.get("staff_changerequest_change", str(request_about(service_id).pk)).content.decode()


@pytest.mark.parametrize(
    ("new", "moved", "words"),
    [
        (0, 0, "Ask for approval of 1 payee"),
        (2, 0, "Ask for approval of 3 payees"),
        (0, 2, "Approve 2 payees, and ask for approval of 1"),
    ],
)
def test_the_button_says_what_it_does(finance, changed, new, moved, words):
    others = [make_service(approved=False).id for _ in range(new)] + [make_with_new_webhook() for _ in range(moved)]

    page = finance.try_to_act(SERVICE, "approve", changed.id, *others).content.decode()

    assert f">{words}</button>" in page


def test_where_four_eyes_are_off_the_button_approves(finance, changed, settings):
    settings.FOUR_EYES = False

    page = finance.try_to_act(SERVICE, "approve", changed.id, make_service(approved=False).id).content.decode()

    assert ">Approve 2 payees</button>" in page


def test_what_stands_out_is_a_badge_in_the_list_and_the_risky_ones_stand_first(finance, changed):
    known, _ = register_service(Registration(new_name("known"), "Known", f"{OLD[:-1]}5", Asset.USDC, None))
    approve_service(known.id, by="anna")
    long_ago = utc_now() - timedelta(days=900)
    new, like = make_service(approved=False), Registration(new_name("like"), "Like", f"{OLD[:-1]}6", Asset.USDC, None)
    register_service(like)
    Service.objects.filter(pk=new.id).update(waiting_since=long_ago)
    finance.decide("approve", changed.id)

    page = finance.get(f"{SERVICE}_changelist").content.decode()

    def badges(service_id):
        row = next(row for row in page.split("<tr>") if f">{service_id}</a>" in row)
        (cell,) = re.findall(r'<td class="field-to_look_at[^>]*>(.*?)</td>', row, re.DOTALL)
        return re.findall(r'class="badge (\w+)">([^<]*)<', cell)

    assert badges(new.id) == [("plain", "new")]
    assert ("bad", f"looks like {known.id}") in badges(like.id)
    assert {("bad", "address changed"), ("warning", "webhook moved"), ("plain", f"asked by {finance.name}")} <= set(
        badges(changed.id)
    )
    assert max(page.index(f">{one}</a>") for one in (changed.id, like.id)) < page.index(f">{new.id}</a>")
    assert badges_are_none(page, known.id)


def badges_are_none(page, service_id):
    row = next(row for row in page.split("<tr>") if f">{service_id}</a>" in row)
    return '<td class="field-to_look_at">—</td>' in row


def test_what_is_done_with_rows_stands_above_them(finance):
    make_service()

    page = finance.get(f"{SERVICE}_changelist").content.decode()

    assert page.index('name="action"') < page.index('id="result_list"')

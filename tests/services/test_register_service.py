"""`POST /v1/services`."""

from typing import Any

import pytest

from services.models import Service
from services.operations import approve_service, disable_service, reject_service
from tests.support.answers import INSTANT, faulty_params
from tests.support.factories import new_address, new_name

MEMBERS = ["id", "name", "recipient", "asset", "status", "createdAt"]
HOOK = "https://hooks.example.com/pay"


@pytest.fixture
def registration(db):
    return {
        "id": new_name("shop"),
        "name": "A shop",
        "recipient": f"evm-localnet:{new_address()}",
        "asset": "USDC",
        "webhookUrl": HOOK,
    }


@pytest.fixture
def approved(api, registration):
    """The same registration, registered and approved."""
    assert api.post("/v1/services", registration).status_code == 201
    approve_service(registration["id"], by="test")
    return registration


def test_a_new_service_is_201_and_pending_approval(api, registration):
    response = api.post("/v1/services", registration)

    answer = response.json()
    assert response.status_code == 201
    assert list(answer) == MEMBERS
    assert {name: answer[name] for name in MEMBERS[:4]} == {name: registration[name] for name in MEMBERS[:4]}
    assert answer["status"] == "pending_approval"
    assert INSTANT.fullmatch(answer["createdAt"])


def test_an_update_is_200_and_keeps_the_time_of_creation(api, registration):
    first = api.post("/v1/services", registration).json()

    response = api.post("/v1/services", {**registration, "name": "Another name"})

    assert response.status_code == 200
    assert response.json() == {**first, "name": "Another name"}


def test_the_webhook_url_is_kept_and_not_told(api, registration):
    response = api.post("/v1/services", registration)

    assert HOOK not in response.content.decode()
    assert Service.objects.get(pk=registration["id"]).webhook_url == HOOK


def test_the_same_registration_again_changes_nothing(api, approved):
    response = api.post("/v1/services", approved)

    assert (response.status_code, response.json()["status"]) == (200, "approved")


def test_a_new_name_needs_no_new_approval(api, approved):
    response = api.post("/v1/services", {**approved, "name": "Another name"})

    assert (response.json()["name"], response.json()["status"]) == ("Another name", "approved")


@pytest.mark.parametrize(
    "change",
    [
        {"recipient": "evm-localnet:0x000000000000000000000000000000000000dEaD"},
        {"recipient": "base:{address}"},
        {"asset": "EURC"},
        {"webhookUrl": "https://hooks.example.com/other"},
        {"webhookUrl": None},
    ],
)
@pytest.mark.parametrize("decide", [None, disable_service])
def test_a_change_of_what_is_approved_returns_a_service_to_pending(api, approved, change, decide):
    if decide:
        decide(approved["id"], by="test")
    address = approved["recipient"].partition(":")[2]
    change = {name: value and value.format(address=address) for name, value in change.items()}

    response = api.post("/v1/services", {**approved, **change})

    assert (response.status_code, response.json()["status"]) == (200, "pending_approval")
    assert Service.objects.get(pk=approved["id"]).approved_recipient == ""


def test_a_change_of_a_rejected_service_is_looked_at_again(api, registration):
    api.post("/v1/services", registration)
    reject_service(registration["id"], by="test")

    same = api.post("/v1/services", registration)
    changed = api.post("/v1/services", {**registration, "asset": "EURC"})

    assert (same.json()["status"], changed.json()["status"]) == ("rejected", "pending_approval")


def test_a_registration_that_returns_to_an_earlier_recipient_is_pending_again(api, approved):
    api.post("/v1/services", {**approved, "recipient": f"evm-localnet:{new_address()}"})

    assert api.post("/v1/services", approved).json()["status"] == "pending_approval"


def test_the_same_recipient_written_differently_is_no_change_and_is_echoed_as_sent(api, approved):
    address = Service.objects.get(pk=approved["id"]).address
    for recipient in (
        f"eip155:31337:{address}",
        f"EVM-Localnet:{address.lower()}",
        f"evm-localnet:0x{address[2:].upper()}",
    ):
        answer = api.post("/v1/services", {**approved, "recipient": recipient}).json()

        assert (answer["recipient"], answer["status"]) == (recipient, "approved")


def test_a_webhook_url_that_is_omitted_stays(api, approved):
    del approved["webhookUrl"]

    response = api.post("/v1/services", approved)

    assert response.json()["status"] == "approved"
    assert Service.objects.get(pk=approved["id"]).webhook_url == HOOK


def test_null_clears_a_webhook_url(api, approved):
    api.post("/v1/services", {**approved, "webhookUrl": None})

    assert Service.objects.get(pk=approved["id"]).webhook_url is None


@pytest.mark.parametrize("webhook", [{}, {"webhookUrl": None}])
def test_a_service_may_have_no_webhook_url(api, registration, webhook):
    del registration["webhookUrl"]

    assert api.post("/v1/services", {**registration, **webhook}).status_code == 201
    assert Service.objects.get(pk=registration["id"]).webhook_url is None


@pytest.mark.parametrize(
    "service_id", ["a", "7", "A.b_c:d/e@f+g-h", "https://shop.example/pay", "x" * 128, "svc_01", "a-0x1234", "0x12"]
)
def test_an_id_may_be(api, registration, service_id):
    assert api.post("/v1/services", {**registration, "id": service_id}).status_code == 201


@pytest.mark.parametrize(
    "service_id",
    [
        "", " ", "-a", ".a", "_a", "/a", "a b", " a", "a ", "a\n", "a\x00", "a,b", "a#b", "a?b", "a%20b", "\u00e4",
        "a\u0301",        "\uff41", "x" * 129, None, 1, 1.5, True, ["a"], {"a": 1},
        "0x1111111111111111111111111111111111111111", "0X1111111111111111111111111111111111111111",
        "1111111111111111111111111111111111111111", "0x" + "a" * 64, "base:0x1111111111111111111111111111111111111111",
        "eip155:8453:0x1111111111111111111111111111111111111111", "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
        "solana:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
    ],
)  # fmt: skip
def test_an_id_may_not_be(api, registration, no_trace, service_id):
    assert set(faulty_params(api.post("/v1/services", {**registration, "id": service_id}))) == {"id"} or "\x00" in str(
        service_id
    )


@pytest.mark.parametrize("name", ["a", "x" * 200, "\u00fc\u00f1\U0001f600", "  spaced  ", "\u0627\u0644"])
def test_a_name_is_kept_as_it_is_written(api, registration, name):
    assert api.post("/v1/services", {**registration, "name": name}).json()["name"] == name


MALFORMED: dict[str, list[Any]] = {
    "name": [
        "",
        " ",
        "\u00a0",
        "\u200b",
        "\u3164 \ufeff",
        "\U000e0041",
        "two\nlines",
        "a\x7f",
        "shop\u202egnp",
        "\u2067a",
        "x" * 201,
        None,
        1,
        0.5,
        True,
        False,
        [],
        ["a"],
        {},
    ],
    "asset": ["", "usdc", "USDC ", "BTC", "USDCC", None, 1, True, ["USDC"], {"USDC": 1}],
    "recipient": ["", " ", None, 1, True, ["base:0x"], {}, "x" * 201, "base:\n"],
    "webhookUrl": ["", 1, True, [HOOK], {"url": HOOK}, "http://a.example", "x" * 2049],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in MALFORMED.items() for value in values]
)
def test_a_malformed_field_is_named_and_leaves_no_trace(api, registration, no_trace, field, value):
    assert set(faulty_params(api.post("/v1/services", {**registration, field: value}))) == {field}


@pytest.mark.parametrize("field", ["id", "name", "recipient", "asset"])
def test_a_missing_field_is_named(api, registration, no_trace, field):
    del registration[field]

    assert faulty_params(api.post("/v1/services", registration)) == [field]


def test_every_fault_of_a_registration_is_named(api, no_trace):
    assert set(faulty_params(api.post("/v1/services", {}))) == {"id", "name", "recipient", "asset"}


def test_a_malformed_update_changes_nothing(api, approved):
    response = api.post("/v1/services", {**approved, "name": "Another", "recipient": "base:0x1"})

    service = Service.objects.get(pk=approved["id"])
    assert faulty_params(response) == ["recipient"]
    assert (service.name, service.status) == ("A shop", "approved")

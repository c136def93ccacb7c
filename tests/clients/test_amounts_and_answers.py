"""What the client sends and reads: money exactly, members that it does not know in peace, everything else strictly."""

import json
import pickle
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from allowance_client import errors
from allowance_client.failures import Refusal
from allowance_client.members import MalformedJson, read_object
from allowance_client.refusals import make_error
from allowance_client.requests import path_of, write_amount, write_instant

from foundation.kernel import errors as contract
from tests.clients.stage import PAYMENT, Stage, answer, paid, refused

ALL = contract.ContractError.__subclasses__()


def written(**changes):
    stage = Stage(paid())
    stage.pay(**changes)
    body = stage.requests[0].body
    assert body is not None
    return json.loads(body)


@pytest.mark.parametrize(
    ("amount", "text"),
    [("0.50", "0.50"), (Decimal("1.0"), "1.0"), (Decimal("1E+2"), "100"), (Decimal("1E-7"), "0.0000001"), (3, "3")],
)
def test_an_amount_is_written_plainly_and_as_it_is(amount, text):
    assert written(amount=amount)["amount"] == text


@pytest.mark.parametrize("amount", [0.5, True, None, b"1"])
def test_what_cannot_hold_money_is_refused(amount):
    with pytest.raises(TypeError, match="Decimal"):
        write_amount(amount)


@pytest.mark.parametrize("amount", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_refused(amount):
    with pytest.raises(ValueError, match="finite"):
        write_amount(Decimal(amount))


def test_metadata_that_is_no_json_is_not_sent():
    with pytest.raises(ValueError, match="JSON"):
        written(metadata={"value": float("nan")})


def test_a_moment_is_written_in_utc():
    moment = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))

    assert write_instant(moment) == "2025-12-31T23:00:00.000Z"
    with pytest.raises(ValueError, match="time zone"):
        write_instant(moment.replace(tzinfo=None))


@pytest.mark.parametrize("identifier", ["", ".", ".."])
def test_what_would_lead_to_another_path_is_no_id(identifier):
    with pytest.raises(ValueError, match="id"):
        path_of("payments", identifier)


def test_an_id_cannot_leave_its_place_in_the_path():
    assert path_of("payments", "a/../../b?c#d", "proof") == "/v1/payments/a%2F..%2F..%2Fb%3Fc%23d/proof"


def test_an_answer_becomes_decimals_and_aware_moments():
    payment = Stage(paid(someLaterMember={"a": 1})).pay()

    assert payment.amount == Decimal("0.50")
    assert payment.created_at == datetime(2026, 5, 14, 18, 42, 11, 123_000, tzinfo=UTC)
    assert payment.raw["someLaterMember"] == {"a": 1}
    with pytest.raises(AttributeError):
        payment.amount = Decimal(1)


@pytest.mark.parametrize("member", PAYMENT)
def test_an_answer_without_a_member_is_not_taken_for_a_payment(member):
    without = {name: value for name, value in PAYMENT.items() if name != member}

    with pytest.raises(errors.UnexpectedAnswer, match=member) as raised:
        Stage(answer(201, without)).pay(idempotency_key="order")

    assert raised.value.idempotency_key == "order"


@pytest.mark.parametrize(
    "members", [{"amount": 0.5}, {"amount": "1e2"}, {"amount": "NaN"}, {"createdAt": "2026-05-14T18:42:11"}, {"id": 1}]
)
def test_a_member_of_another_form_is_not_guessed_at(members):
    with pytest.raises(errors.UnexpectedAnswer):
        Stage(paid(**members)).pay()


@pytest.mark.parametrize("status", [200, 301, 302, 307, 308, 401, 404, 413, 431])
def test_an_answer_of_somebody_else_is_neither_followed_nor_repeated(status):
    stage = Stage(answer(status, b"<html>", location="https://elsewhere.example/"), paid())

    if status == 200:
        stage.pay()  # a success that cannot be read may have paid: the same key finds out
    else:
        with pytest.raises(errors.UnexpectedAnswer, match=str(status)):
            stage.pay()

    assert len(stage.requests) == (2 if status == 200 else 1)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"a": NaN}', b'{"a": 1, "a": 2}', b"\xff", b"[" * 100_000])
def test_what_is_no_object_of_single_members_is_not_read(body):
    with pytest.raises(MalformedJson):
        read_object(body)


# --- Errors
@pytest.mark.parametrize("ours", ALL, ids=lambda one: one.code)
def test_every_code_of_the_contract_has_a_class_of_the_same_name(ours):
    theirs = getattr(errors, ours.__name__)

    assert theirs.code == ours.code
    with pytest.raises(theirs):
        Stage(refused(400, ours.code, retry=None)).pay()


def test_an_unknown_code_is_the_base_class_and_keeps_what_it_says():
    with pytest.raises(errors.AllowanceError) as raised:
        Stage(refused(418, "a_later_code", retry=None, docs="/v1/docs/errors/a_later_code")).pay()

    assert type(raised.value) is errors.AllowanceError
    assert (raised.value.code, raised.value.docs) == ("a_later_code", "/v1/docs/errors/a_later_code")


def test_an_error_survives_being_sent_between_processes():
    error = make_error(Refusal("budget_exceeded", "No.", 422, raw={"limit": "1.00"}))

    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own

    assert isinstance(again, errors.BudgetExceeded)
    assert (again.limit, again.spent, str(again)) == (Decimal("1.00"), None, "422 budget_exceeded: No.")

"""What a person sees whom the console refuses or fails: a page, and the same for everybody."""

import pytest
import requests
from django.core.exceptions import RequestDataTooBig
from django.db import OperationalError
from django.http import HttpResponseNotAllowed
from django.test import Client
from django.urls import include, path

from allowance import urls
from allowance.urls import handler400, handler403, handler404, handler500  # noqa: F401 - a urlconf has them
from tests.support.answers import error_of
from tests.support.ports import free_ports
from tests.support.servers import Servers

SECRET = "the password is swordfish"


def fails(_request):
    raise RuntimeError(SECRET)


def is_cut_off(_request):
    raise OperationalError(SECRET)


def is_too_much(_request):
    raise RequestDataTooBig(SECRET)


urlpatterns = [
    *(
        path(prefix, include([path("fails", fails), path("cut-off", is_cut_off), path("too-much", is_too_much)]))
        for prefix in ("console/test/", "elsewhere/")
    ),
    path("elsewhere/method", lambda _: HttpResponseNotAllowed(["GET"])),
    *urls.urlpatterns,
]


def read(response, status, title, *, request_id=None):
    """Assert that an answer is a page of the console that gives nothing away; return its text."""
    text = response.content.decode()
    assert response.status_code == status, text
    assert response["Content-Type"] == "text/html; charset=utf-8"
    assert "no-store" in response["Cache-Control"]
    assert f"<h1>{title}</h1>" in text
    assert '<div id="site-name"><a href="/console/">Allowance</a></div>' in text
    assert f'error {status}, request <code class="secret">{request_id or response["X-Request-Id"]}</code>' in text
    for telling in ("swordfish", "Traceback", "csrfmiddlewaretoken", "Log out", "{"):
        assert telling not in text.partition("</head>")[2]
    return text


def stranger():
    return Client(SERVER_NAME="localhost", raise_request_exception=False)


# --- Addresses --------------------------------------------------------------------------------------------------------
NOWHERE = [
    "nothing",
    "nothing/",
    "services",
    "services/nothing/",
    "services/nothing/x/change/",
    "a%0Ab",
    "%00",
    "%0A",
    "//x",
]


@pytest.mark.parametrize("address", NOWHERE)
def test_staff_who_mistype_an_address_are_told_so_on_a_page(finance, address):
    read(finance.client.get(f"/console/{address}"), 404, "There is nothing here")


EXISTING = ["", "services/service/", "services/webhooksecret/", "services/service/x/change/", "auth/user/", "jsi18n/"]


@pytest.mark.parametrize("method", ["get", "head"])
def test_who_is_not_logged_in_cannot_tell_which_addresses_exist(db, method):
    for address in EXISTING + NOWHERE:
        response = getattr(stranger(), method)(f"/console/{address}")
        assert response.status_code == 302, address
        assert response["Location"].startswith("/console/login/?next=/console/")


def test_nor_by_posting_something(db):
    posting = Client(SERVER_NAME="localhost", enforce_csrf_checks=True)

    for address in EXISTING + NOWHERE:
        response = posting.post(f"/console/{address}")
        assert response.status_code == 302, address
        assert response["Location"].startswith("/console/login/?next=/console/")


def test_the_console_without_a_slash_is_the_console(db):
    assert stranger().get("/console")["Location"] == "/console/"


@pytest.mark.parametrize("address", ["/consolex", "/Console/", "/console.json", "/v1/nothing", "/nothing", "/"])
def test_an_address_beside_the_console_answers_a_program(anonymous, address):
    error_of(anonymous.get(address), 404, "not_found")


# --- Refusals ---------------------------------------------------------------------------------------------------------
def test_staff_without_the_permission_are_told_so_on_a_page(make_person):
    response = make_person().get("services_service_changelist")

    read(response, 403, "You may not do this")


def test_who_sends_a_form_of_an_earlier_session_is_asked_to_reload(finance):
    finance.client.handler.enforce_csrf_checks = True

    response = finance.try_to_act("services_service", "disable", "shop")

    assert "Go back, reload it, and try again." in read(response, 403, "This page was out of date")


@pytest.mark.parametrize("query", ["?q=%00", "?page=1&x=a%00b"])
def test_what_no_page_sends_is_not_understood(finance, query):
    read(finance.client.get(f"/console/services/service/{query}"), 400, "This was not understood")


def test_a_host_that_is_not_ours_is_not_understood(db):
    read(stranger().get("/console/", HTTP_HOST="evil.example"), 400, "This was not understood")


def test_a_form_with_too_many_fields_is_not_understood(finance):
    fields = "&".join(f"field{number}=" for number in range(1_100))

    response = finance.client.post(
        "/console/services/service/", fields, content_type="application/x-www-form-urlencoded"
    )

    read(response, 400, "This was not understood")


def test_a_form_that_is_too_large_is_too_much(finance):
    response = finance.client.post(
        "/console/services/service/", b"a=" + bytes(3_000_000), content_type="application/x-www-form-urlencoded"
    )

    read(response, 413, "This is too much at once")


def test_a_method_that_an_address_does_not_know_is_answered_with_a_page_and_the_methods(finance):
    response = finance.get("logout")

    read(response, 405, "This address is not a page")
    assert response["Allow"] == "POST, OPTIONS"


# --- Failures ---------------------------------------------------------------------------------------------------------
@pytest.mark.urls("tests.foundation.console.test_error_pages")
def test_a_failure_is_a_page_that_tells_no_details_and_is_named_in_the_log(caplog):
    response = stranger().get("/console/test/fails", HTTP_X_REQUEST_ID="call-17")

    read(response, 500, "Something went wrong on our side", request_id="call-17")
    assert "Request call-17 to the console failed:" in caplog.text


def test_a_failure_is_a_page_where_no_database_may_be_asked(django_db_blocker):
    """Who has a session meets a failure: the session is in the database."""
    browser = stranger()
    browser.cookies["sessionid"] = "a" * 32

    with django_db_blocker.block():
        read(browser.get("/console/"), 500, "Something went wrong on our side")


@pytest.mark.urls("tests.foundation.console.test_error_pages")
def test_without_its_database_the_console_says_so_on_a_page(caplog):
    response = stranger().get("/console/test/cut-off")

    read(response, 503, "The database does not answer")
    assert int(response["Retry-After"]) >= 1


def test_a_server_whose_database_is_away_answers_people_with_pages():
    nowhere = f"postgres://nobody@127.0.0.1:{free_ports(1)[0]}/nothing"

    with Servers(variables=[{"DATABASE_URL": nowhere}]) as running, requests.Session() as browser:
        browser.trust_env = False
        for address in ("", "services/service/", "nothing"):
            answer = browser.get(f"{running.urls[0]}/console/{address}", cookies={"sessionid": "a" * 32}, timeout=60)
            assert (answer.status_code, answer.headers["Cache-Control"]) == (503, "no-store")
            assert "<h1>The database does not answer</h1>" in answer.text
            assert f'request <code class="secret">{answer.headers["X-Request-Id"]}</code>' in answer.text
            assert nowhere not in answer.text


@pytest.mark.urls("tests.foundation.console.test_error_pages")
@pytest.mark.parametrize(
    ("address", "status", "code"),
    [("fails", 500, "internal_error"), ("cut-off", 500, "internal_error"), ("too-much", 400, "invalid_request")],
)
def test_beside_the_console_programs_are_answered(anonymous, address, status, code):
    error_of(anonymous.get(f"/elsewhere/{address}"), status, code)


@pytest.mark.urls("tests.foundation.console.test_error_pages")
def test_beside_the_console_a_method_is_refused_without_a_page(anonymous):
    assert anonymous.get("/elsewhere/method").content == b""


@pytest.mark.urls("tests.foundation.console.test_error_pages")
@pytest.mark.parametrize("address", ["test/fails", "nothing%0A"])
def test_a_request_id_of_a_client_is_shown_as_text_and_only_if_it_is_sane(finance, address):
    response = finance.client.get(f"/console/{address}", HTTP_X_REQUEST_ID="<script>alert(1)</script>")

    assert "alert" not in response.content.decode()
    assert response["X-Request-Id"].startswith("req_")
    assert response["X-Request-Id"] in response.content.decode()

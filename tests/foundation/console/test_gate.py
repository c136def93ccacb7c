"""What reaches a page of the console: nothing of a form before its sender is known, and no large form at all."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.test.client import FakePayload

from foundation.console.gate import MAX_LOGIN_BYTES
from tests.support.wire import ask

PAGES = ["/console", "/console/", "/console/services/service/", "/console/logout/", "/console/nothing/",
         "/console/password_change/", "/console/login/more/", "/console/login/code/", "/console/login/sso/",
         "/console/account/confirm/"]  # fmt: skip


class Untouched(FakePayload):
    """A body that nobody may read."""

    def read(self, *_: Any, **__: Any) -> bytes:
        pytest.fail("the body was read")


def send(client: Client, method: str, page: str, length: int = 3) -> Any:
    """Send a form that fails the test if it is read."""
    form = "application/x-www-form-urlencoded"
    sent: dict[str, Any] = {"wsgi.input": Untouched(b"a=b"), "CONTENT_LENGTH": str(length), "CONTENT_TYPE": form}
    return client.generic(method, page, **sent)


@pytest.fixture
def stranger(db):
    return Client(SERVER_NAME="localhost", enforce_csrf_checks=True)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
@pytest.mark.parametrize("page", PAGES)
def test_of_a_stranger_no_form_is_read_but_the_login(stranger, page, method):
    answer = send(stranger, method, page)

    assert (answer.status_code, answer["Location"]) == (302, f"/console/login/?next={page}")


def test_of_somebody_who_is_no_staff_no_form_is_read(db):
    client = Client(SERVER_NAME="localhost")
    client.force_login(User.objects.create(username="visitor"))

    assert send(client, "POST", "/console/").status_code == 302


@pytest.mark.parametrize("size", [MAX_LOGIN_BYTES + 1, 70_000])
def test_what_is_sent_to_log_in_is_small(stranger, size):
    response = send(stranger, "POST", "/console/login/", size)
    assert (response.status_code, "This is too much at once" in response.content.decode()) == (413, True)


def test_what_staff_send_is_at_most_64_kib(finance):
    response = send(finance.client, "POST", "/console/", 65_537)
    assert (response.status_code, "This is too much at once" in response.content.decode()) == (413, True)


def test_a_form_that_is_cut_off_is_400_and_does_nothing(committed, servers):
    head = b"POST /console/login/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    answer = ask(servers.urls[0], head + b"Content-Length: 100\r\n\r\nusername=a", ends=True)

    assert (answer.status, b"This was not understood" in answer.body) == (400, True)


def test_staff_who_were_recognised_do_their_work_over_http(committed, servers):
    """The front asks twice about a session that it does not know yet."""
    user = User.objects.create(username="clerk", is_staff=True, is_superuser=True)
    client = Client(SERVER_NAME="localhost")
    client.force_login(user)
    session = client.cookies["sessionid"].value
    head = f"GET /console/ HTTP/1.1\r\nHost: localhost\r\nCookie: sessionid={session}\r\n\r\n".encode()
    try:
        assert [ask(servers.urls[0], head).status for _ in range(4)] == [200] * 4
    finally:
        user.delete()

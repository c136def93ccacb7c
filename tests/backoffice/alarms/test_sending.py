"""Notices go out once, over the channels of the role; what fails is tried again, and what is too much goes together."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail

from backoffice.alarms import sending
from backoffice.alarms.channels import Channel
from backoffice.alarms.operations import try_channels
from backoffice.alarms.sending import MOST_PER_HOUR, send_due
from backoffice.alarms.telling import tell_as_a_test
from backoffice.models import Alarm, Notice
from tests.backoffice.alarms.conftest import CAUSE, STOPPED, World, more
from tests.services.webhooks.behaviours import answers
from tests.services.webhooks.receivers import Receiver
from tests.support.mail_server import MailServer

MINUTE = timedelta(minutes=1)


@pytest.fixture
def local(settings: Any) -> Any:
    """Settings by which notices may go to this machine."""
    settings.WEBHOOKS_ALLOW_PRIVATE = True
    settings.CONSOLE_URL = "https://pay.example"
    settings.NOTICE_URLS = {}
    return settings


def states() -> list[tuple[str, str]]:
    return list(Notice.objects.order_by("id").values_list("state", "trouble"))


def texts(receiver: Receiver) -> list[str]:
    return [json.loads(request.body)["text"] for request in receiver.requests]


def test_an_alarm_is_posted_as_slack_takes_it(world: World, local: Any):
    with Receiver() as receiver:
        local.NOTICE_URLS = {"finance": receiver.url()}
        world.look(CAUSE)
        send_due(world.now)
        send_due(world.now)

    (request,) = receiver.requests
    assert request.header("content-type") == "application/json"
    alarm = Alarm.objects.get()
    assert json.loads(request.body) == {
        "text": f"Alarm: {CAUSE.says}\nWhat it means: {CAUSE.kind.means}\n"
        f"What to do: {CAUSE.mend} "
        f"<https://pay.example/console/backoffice/alarm/{alarm.pk}/change/|Open the console>"
    }
    assert states() == [("sent", "")]


def test_only_the_roles_that_deal_with_it_are_told(world: World, local: Any):
    with Receiver() as finance, Receiver() as operations:
        local.NOTICE_URLS = {"finance": finance.url(), "operations": operations.url()}
        world.look(CAUSE, STOPPED)
        send_due(world.now)

    assert [len(texts(finance)), len(texts(operations))] == [2, 1]


@pytest.mark.parametrize("allowed", [True, False])
def test_a_notice_goes_to_no_address_inside(world: World, local: Any, allowed: bool):
    local.WEBHOOKS_ALLOW_PRIVATE = allowed
    with Receiver() as receiver:
        local.NOTICE_URLS = {"finance": receiver.url()}
        world.look(CAUSE)
        send_due(world.now)

    ((state, trouble),) = states()
    assert (len(receiver.requests), state) == ((1, "sent") if allowed else (0, "waiting"))
    assert ("address is refused" in trouble) is not allowed


def test_what_fails_is_tried_again_and_given_up_in_the_end(world: World, local: Any):
    with Receiver(answers(500)) as receiver:
        local.NOTICE_URLS = {"finance": receiver.url()}
        world.look(CAUSE)
        for minutes in (0, 0.5, 1, 6, 21, 81, 321, 5000):
            send_due(world.now + minutes * MINUTE)

    assert len(receiver.requests) == 6
    assert states() == [("failed", "It answered with status 500")]


def test_what_failed_arrives_when_it_can(world: World, local: Any):
    with Receiver(answers(503), answers(200)) as receiver:
        local.NOTICE_URLS = {"finance": receiver.url()}
        world.look(CAUSE)
        send_due(world.now)
        send_due(world.now + MINUTE)

    assert states() == [("sent", "")]


def test_a_notice_whose_sender_died_is_sent_again(world: World, local: Any, monkeypatch: Any):
    def die(*_: Any) -> None:
        raise SystemExit

    with Receiver() as receiver:
        local.NOTICE_URLS = {"finance": receiver.url()}
        world.look(CAUSE)
        with monkeypatch.context() as patched:
            patched.setattr(sending, "send", die)
            with pytest.raises(SystemExit):
                send_due(world.now)
        assert states() == [("sending", "")]

        send_due(world.now + MINUTE)
        assert receiver.requests == []
        send_due(world.now + 2 * MINUTE)
        assert len(receiver.requests) == 1

    assert states() == [("sent", "")]


def test_beyond_an_hours_most_everything_goes_into_one_message(world: World, local: Any):
    with Receiver() as receiver:
        local.NOTICE_URLS = {"finance": receiver.url()}
        for count in range(1, 31):
            world.look(more(CAUSE, count))
        send_due(world.now)
        assert len(texts(receiver)) == MOST_PER_HOUR
        assert texts(receiver)[-1].count("Open the console") == 30 - (MOST_PER_HOUR - 1)

        for count in range(31, 36):
            world.look(more(CAUSE, count))
        send_due(world.now + 59 * MINUTE)
        assert len(texts(receiver)) == MOST_PER_HOUR
        send_due(world.now + 61 * MINUTE)

    assert sum(text.count("Open the console") for text in texts(receiver)) == 35
    assert {state for state, _ in states()} == {"sent"}


def test_a_kind_that_nobody_was_told_of_does_not_wait_behind_many_of_another(world: World, local: Any):
    with Receiver() as receiver:
        local.NOTICE_URLS = {"finance": receiver.url()}
        for count in range(1, MOST_PER_HOUR + 5):
            world.look(more(CAUSE, count))
        send_due(world.now)
        world.look(more(CAUSE, MOST_PER_HOUR + 5), STOPPED)
        world.look(more(CAUSE, MOST_PER_HOUR + 6), more(STOPPED, 2))
        send_due(world.now + MINUTE)

        assert len(texts(receiver)) == MOST_PER_HOUR + 1
        assert STOPPED.says in texts(receiver)[-1]
        send_due(world.now + 2 * MINUTE)
        assert len(texts(receiver)) == MOST_PER_HOUR + 1


def test_a_test_does_not_wait_for_the_hour(world: World, local: Any):
    with Receiver() as receiver:
        local.NOTICE_URLS = {"finance": receiver.url()}
        for count in range(1, MOST_PER_HOUR + 5):
            world.look(more(CAUSE, count))
        send_due(world.now)
        tell_as_a_test(Channel("finance", "url"), "kim", world.now)
        send_due(world.now)

    assert texts(receiver)[-1] == "Test: kim tests whether this arrives."


def test_staff_of_the_role_are_told_by_mail(world: World, local: Any, staff_of: Any):
    kim, alex = staff_of("Finance"), staff_of("Finance")
    staff_of("Operations"), staff_of("Finance", is_active=False), staff_of("Finance", is_staff=False)
    staff_of("Finance", email="")
    world.look(CAUSE)
    send_due(world.now)

    (sent,) = mail.outbox
    assert sent.to == [kim.email, alex.email]
    assert sent.subject == f"[Allowance] Alarm: {CAUSE.says}"
    assert f"https://pay.example/console/backoffice/alarm/{Alarm.objects.get().pk}/change/" in sent.body


def test_without_a_mail_server_no_mail_is_made(world: World, local: Any, staff_of: Any):
    local.EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
    staff_of("Finance")
    world.look(CAUSE)

    assert states() == []


@pytest.fixture
def mailed(local: Any, staff_of: Any) -> Any:
    """Settings by which a mail goes out as it does in life."""
    local.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    local.DEFAULT_FROM_EMAIL = "allowance@example.com"
    local.EMAIL_HOST, local.EMAIL_USE_TLS, local.EMAIL_USE_SSL = "127.0.0.1", False, False
    local.EMAIL_HOST_USER = local.EMAIL_HOST_PASSWORD = ""
    return local


def test_a_mail_goes_out_by_a_real_mail_server(world: World, mailed: Any, staff_of: Any):
    kim = staff_of("Finance")
    with MailServer() as server:
        mailed.EMAIL_PORT = server.port
        world.look(CAUSE)
        send_due(world.now)

    (sent,) = server.mails
    assert kim.email in server.recipients[0]
    assert (sent["Subject"], sent["From"]) == (f"[Allowance] Alarm: {CAUSE.says}", "allowance@example.com")
    assert states() == [("sent", "")]


def test_a_mail_server_that_is_away_is_said(world: World, mailed: Any, staff_of: Any):
    staff_of("Finance")
    with MailServer() as server:
        mailed.EMAIL_PORT = server.port
    world.look(CAUSE)
    send_due(world.now)

    ((state, trouble),) = states()
    assert (state, "ConnectionRefusedError" in trouble) == ("waiting", True)


def test_a_test_that_fails_is_not_tried_again(world: World, mailed: Any, staff_of: Any):
    kim = staff_of("Operations")
    with MailServer(kim.email) as server:
        mailed.EMAIL_PORT = server.port
        try_channels("operations", by="kim")
        send_due()

    ((state, trouble),) = states()
    assert (state, server.mails) == ("failed", [])
    assert "SMTPRecipientsRefused" in trouble

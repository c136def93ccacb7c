"""With real processes: a chain is stopped, a worker raises the alarm, a mail and a chat tell of it, and it is over."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from django.contrib.auth.models import Group, User
from django.test import Client

from backoffice.alarms.looking import CALM, look
from backoffice.models import Alarm, Notice
from foundation.kernel.times import utc_now
from payments.settling.chain_switch import start_signing_on, stop_signing_on
from staff.models import ChangeRequest, RequestState
from tests.crash.installation import wait_until
from tests.services.webhooks.receivers import Receiver
from tests.support.factories import new_name
from tests.support.localnets import EVM
from tests.support.mail_server import MailServer
from tests.support.workers import worker

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(40)]
REASON = "A drill: the provider is away"


@pytest.fixture
def kim() -> Any:
    """Somebody of Finance who sees everything, for as long as this test lasts."""
    name = new_name("user")
    user = User.objects.create(username=name, email=f"{name}@example.com", is_staff=True, is_superuser=True)
    user.groups.add(Group.objects.get_or_create(name="Finance")[0])
    yield user
    user.is_active = False
    user.email = ""
    user.save()


def ring_until(condition: Any, what: str) -> None:
    """Ring as beat does, but more often, until something is so."""

    def is_so() -> Any:
        for task in ("look_for_alarms", "send_notices"):
            current_app.send_task(f"backoffice.tasks.{task}", expires=3)
        return condition()

    wait_until(is_so, what)


def of_chain() -> Any:
    return Alarm.objects.filter(kind="chains", subject=EVM.caip2, is_over=False, sentence__contains=REASON)


def banner_for(user: User) -> str:
    client = Client(SERVER_NAME="localhost")
    client.force_login(user)
    return client.get("/console/services/service/").content.decode()


def test_an_alarm_is_raised_shown_told_and_over(tmp_path: Path, kim: User):
    # What other tests have left is known already, and told to nobody: an hour has so many messages and no more.
    Notice.objects.all().delete()
    look(utc_now())
    Alarm.objects.update(acknowledged_by="test")  # every page names three
    with Receiver() as chat, MailServer() as mail:
        channels = {
            "EMAIL_URL": mail.url, "DEFAULT_FROM_EMAIL": "allowance@example.com", "WEBHOOKS_ALLOW_PRIVATE": "true",
            "NOTICE_URLS": f"operations={chat.url()}", "CONSOLE_URL": "https://pay.example",
        }  # fmt: skip

        def said(what: str) -> bool:
            posted = [json.loads(request.body)["text"] for request in chat.requests]
            mailed = [
                one["Subject"] or "" for one, to in zip(mail.mails, mail.recipients, strict=True) if kim.email in to
            ]
            return any(what in text and REASON in text for text in posted) and any(what in one for one in mailed)

        with worker(tmp_path, "worker", **channels):
            stop_signing_on(EVM.caip2, by="kim", reason=REASON)
            try:
                ring_until(lambda: of_chain().exists() and said("Alarm:"), "it is raised and told")
                assert REASON in banner_for(kim)
            finally:
                start_signing_on(EVM.caip2, by="kim")
            ring_until(lambda: of_chain().filter(cleared_at=None).count() == 0, "it is cleared")
            assert REASON not in banner_for(kim)
            of_chain().update(cleared_at=utc_now() - CALM)
            ring_until(lambda: said("Over:"), "it is told that it is over")
        assert not of_chain().exists()


def test_requests_whose_time_is_over_are_ended_by_the_worker(tmp_path: Path):
    request = ChangeRequest.objects.create(
        kind="test.kind", subject_type="agent", subject="a", arguments={}, shown=[], reason="x", asked_by="kim",
        asked_at=utc_now() - timedelta(days=4), expires_at=utc_now() - timedelta(days=1),
    )  # fmt: skip
    with worker(tmp_path, "worker"):
        ring_until(
            lambda: ChangeRequest.objects.filter(pk=request.pk, state=RequestState.EXPIRED).exists(), "it is ended"
        )

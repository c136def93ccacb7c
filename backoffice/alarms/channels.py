"""The channels that notices go over: e-mail to the staff of a role, and a URL for each role."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.models import User

from backoffice.alarms.texts import Line, chat_of, mail_of, subject_of
from foundation.findings import ADMINISTRATOR, FINANCE, OPERATIONS
from foundation.mail import MailNotSent, send_mail, sends_mail
from services.models import Outcome
from services.webhooks.posting import open_session, post
from services.webhooks.resolving import CheckedResolver, look_up

EMAIL, URL = "email", "url"
# The group of Django whose members have the role.
GROUPS = {FINANCE: "Finance", OPERATIONS: "Operations", ADMINISTRATOR: "Administrator"}
_TIMEOUT_S = 5.0
_TROUBLE_LENGTH = 300
_WORDS = {
    Outcome.STATUS: "It answered with status",
    Outcome.TIMEOUT: "It did not answer in time:",
    Outcome.CONNECTION: "No connection:",
    Outcome.TLS: "No secure connection:",
    Outcome.DNS: "Its name is not known:",
    Outcome.BLOCKED_ADDRESS: "Its address is refused:",
    Outcome.UNKNOWN: "The attempt ended unexpectedly:",
}
_MOST_RECIPIENTS = 100


class NotSent(Exception):
    """A message did not get out, or nobody can tell; says why, in text that may be stored and shown."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A way to tell a role something."""

    role: str
    name: str


def channels_of(role: str) -> list[Channel]:
    """List the channels over which a role can be told something at present."""
    mail = [Channel(role, EMAIL)] if sends_mail() and recipients_of(role) else []
    return mail + ([Channel(role, URL)] if role in settings.NOTICE_URLS else [])


def recipients_of(role: str) -> list[str]:
    """Find the e-mail addresses of the staff who have a role."""
    staff = User.objects.filter(is_active=True, is_staff=True, groups__name=GROUPS[role]).exclude(email="")
    return list(staff.order_by("pk").values_list("email", flat=True)[:_MOST_RECIPIENTS])


def send(channel: Channel, lines: Sequence[Line]) -> None:
    """Send one message.

    Raises:
        NotSent: it did not get out, or its receiver did not say that it came.
    """
    if channel not in channels_of(channel.role):
        raise NotSent("This channel is not there any more.")
    if channel.name == EMAIL:
        _mail(channel.role, lines)
    else:
        asyncio.run(_post(settings.NOTICE_URLS[channel.role], chat_of(lines)))


def _mail(role: str, lines: Sequence[Line]) -> None:
    try:
        send_mail(subject_of(lines), mail_of(lines, GROUPS[role]), to=recipients_of(role))
    except MailNotSent as trouble:
        raise NotSent(str(trouble)) from trouble


async def _post(url: str, text: str) -> None:
    """Post to a URL as to a payee's: never to an address inside, unless that is allowed for development."""
    resolver = CheckedResolver(look_up, allow_loopback=settings.WEBHOOKS_ALLOW_PRIVATE)
    async with open_session(resolver) as session:
        attempt = await post(session, url, json.dumps({"text": text}).encode(), timeout_s=_TIMEOUT_S)
    if attempt.outcome != Outcome.DELIVERED:
        raise NotSent(f"{_WORDS[attempt.outcome]} {attempt.status or attempt.detail}".strip()[:_TROUBLE_LENGTH])

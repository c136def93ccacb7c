"""Look at the ways out: to payees' receivers, to the mail server, to the channels of notices. Nothing is sent."""

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import get_connection

from backoffice.alarms.channels import GROUPS, channels_of
from foundation.mail import sends_mail
from operators.doctor.diagnoses import Diagnosis, error, ok, skipped, warning
from operators.doctor.looking import reading
from services.models import RECEIVES_EVENTS, Outcome, WebhookEndpoint
from services.webhooks.posting import find_obstacle, open_session
from services.webhooks.resolving import CheckedResolver, look_up

_PATIENCE_S = 5
_MOST_HOSTS = 20
_EGRESS = "Open the way for webhooks: its DNS, and outgoing connections to port 443; docs/operate/processes.md"


def find_closed_ways_to_payees() -> Iterator[Diagnosis]:
    """Open, and close, a connection to each receiver of webhooks, as far as events may go there."""
    with reading():
        endpoints = WebhookEndpoint.objects.filter(RECEIVES_EVENTS, disabled_at=None).select_related("service")
        urls = [str(endpoint.its_url) for endpoint in endpoints.order_by("pk")[:200]]
    hosts = {urlsplit(url).netloc: url for url in urls}
    troubles = {host: trouble for host, url in list(hosts.items())[:_MOST_HOSTS] if (trouble := _try(url))}
    are_all = len(troubles) == len(hosts) > 0
    for host, trouble in troubles.items():
        mend = _EGRESS if are_all else "Ask whose it is; python manage.py webhooks shows how its deliveries go"
        yield (error if are_all else warning)(host, f"No connection: {trouble}", mend)
    if not troubles:
        yield ok("receivers", f"{len(hosts)} receivers can be reached." if hosts else "Nobody has a webhook.")


def _try(url: str) -> str:
    """Connect to the server of a URL as webhooks do, through the proxy if there is one; returns what went wrong."""

    async def connect() -> tuple[Outcome, str] | None:
        resolver = CheckedResolver(look_up, allow_loopback=settings.WEBHOOKS_ALLOW_PRIVATE)
        async with open_session(resolver) as session:
            return await find_obstacle(session, url, _PATIENCE_S)

    obstacle = asyncio.run(connect())
    return "" if obstacle is None else obstacle[1]


def find_deaf_mail_server() -> Iterator[Diagnosis]:
    """Connect to the mail server and sign in; no mail is sent."""
    if not sends_mail():
        yield skipped("mail server", "EMAIL_URL is not set: no e-mail is sent.")
        return
    mail = get_connection(timeout=_PATIENCE_S)
    try:
        mail.open()
    except OSError as trouble:  # those of SMTP are OSErrors
        says = f"It cannot be used: {type(trouble).__name__}: {trouble}"
        yield error("mail server", says, "Correct EMAIL_URL; smtps:// speaks TLS from the first byte, smtp:// STARTTLS")
    else:
        yield ok("mail server", "It lets us in.")
    finally:
        mail.close()


def find_deaf_channels() -> Iterator[Diagnosis]:
    """Connect to the URLs that notices go to."""
    for role, url in settings.NOTICE_URLS.items():
        trouble = _try(url)
        yield (
            error(role, f"No connection to its URL: {trouble}", f"Correct NOTICE_URLS; {_EGRESS}")
            if trouble
            else ok(role, "Its URL can be reached.")
        )
    if not settings.NOTICE_URLS:
        yield skipped("channels", "NOTICE_URLS is not set.")


def find_untold_roles() -> Iterator[Diagnosis]:
    """Find roles that nobody is told alarms of."""
    for role, group in GROUPS.items():
        if channels_of(role):
            yield ok(role, "They are told.")
        else:
            says = f"No alarm reaches {group}: no e-mail address and no URL."
            yield warning(
                role, says, f"Set EMAIL_URL and give somebody the role {group}, or {role}=https://… in NOTICE_URLS"
            )
    if (settings.EMAIL_HOST or settings.NOTICE_URLS) and not settings.CONSOLE_URL:
        yield warning("links", "Notices have no links to the console.", "Set CONSOLE_URL")

"""The mail server, if there is one."""

from collections.abc import Sequence

from django.conf import settings
from django.core.mail import EmailMessage

_TROUBLE_LENGTH = 300


class MailNotSent(Exception):
    """An e-mail did not get out; says why, in text that may be stored and shown."""


def sends_mail() -> bool:
    """Tell whether there is a mail server."""
    return not settings.EMAIL_BACKEND.endswith("dummy.EmailBackend")


def send_mail(subject: str, text: str, *, to: Sequence[str]) -> None:
    """Send one e-mail.

    Raises:
        MailNotSent: the mail server did not take it.
    """
    try:
        EmailMessage(subject, text, to=to).send()
    except (OSError, ValueError) as error:  # those of SMTP are OSErrors; a ValueError: an address is none
        raise MailNotSent(f"{type(error).__name__}: {error}".replace("\x00", "")[:_TROUBLE_LENGTH]) from error

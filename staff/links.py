"""What Administrators do about one-time links: whoever could open one could be the person whose link it is.

One Administrator may have a link sent to an address that two have seen, and sees it on no page. A link that is shown
takes two: each sees one half, and hands it to its owner. Only who never had a colleague sees a whole one.
"""

from urllib.parse import urljoin

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.db import transaction

from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from foundation.mail import MailNotSent, send_mail, sends_mail
from staff.accounts import lock_account, record_change
from staff.independence import acts_alone, read_hands
from staff.models import ChangeRequest, RequestState
from staff.sign_in import sessions
from staff.sign_in.codes import has_authenticator
from staff.sign_in.links import Halves, make_halves, make_whole

KIND = "staff.link"
_SUBJECT = "Your account at {host}"
_TEXT = """{by} sends you this link, by which you set the password of your account {user}:

{link}

It works once, within 24 hours. If nobody has told you that it would come, do not open it: tell an Administrator whom
you know.
"""


def sends_links() -> bool:
    """Tell whether links can be sent: by a mail server, and for an address of the console that nobody can bend."""
    return sends_mail() and bool(settings.CONSOLE_URL)


def send_link(username: str, *, by: str, reason: str = "") -> User:
    """Send the address of an account a link that opens it, and nobody else sees it. Its password of before is gone.

    Raises:
        OperationRefused: no e-mail can be sent, the account is not active, or one person alone has seen its address.
    """
    password = make_password(None)
    with transaction.atomic():
        user = _lock_for_sending(username, by)
    user.password = password
    # Before it is done, and good only once it is: a mail server may take long, or not take it.
    _send(user, urljoin(settings.CONSOLE_URL, make_whole(user)), by)
    with transaction.atomic():
        user = _lock_for_sending(username, by)
        _renew(user, password, by, reason)
        record_change("link_sent", user, by, reason, after={"email": user.email})
    return user


def make_link(username: str, *, by: str, reason: str = "") -> str:
    """Make a link that opens an account by itself; returns its path, for whoever never had a colleague.

    Raises:
        OperationRefused: they had one, the account is not active, or it is that of somebody who comes by single sign-on
            alone: the link would be all it takes to be them.
    """
    with transaction.atomic():
        user = _lock_active(username, by)
        if settings.FOUR_EYES and not acts_alone(by):
            raise OperationRefused("A link that one person sees takes a second person: ask for one in two halves.")
        if settings.FOUR_EYES and user.last_login is not None and not has_authenticator(user):
            raise OperationRefused(
                f"{user} signs in already, and has no authenticator: whoever opens the link could set one up. They set "
                "one up themselves, or a command sets their password: manage.py changepassword."
            )
        record_change("link_made", user, by, reason)
    return make_whole(user)


def make_link_of_two(username: str, *, email: str, by: str, reason: str = "") -> User:
    """Make a link in two halves (`halves_for`). What opened the account before is gone: password, links, sessions.

    `email`: the address that the two have seen.

    Raises:
        OperationRefused: the account is not active, or has another address by now.
    """
    with transaction.atomic():
        user = _lock_active(username, by)
        if user.email != email:
            raise OperationRefused(f"The e-mail address of {user} has changed meanwhile: look again.")
        _renew(user, make_password(None), by, reason)
        record_change("link_made", user, by, reason, after={"email": email})
    return user


def halves_for(person: str, request: ChangeRequest) -> Halves | None:
    """Give somebody their half of the link that a request was about: who asked, the code; who confirmed, the address.

    None: they are neither, or it was not confirmed, or the link was used, is too old, or was made anew.
    """
    if request.kind != KIND or request.decided_at is None or request.state != RequestState.CONFIRMED:
        return None
    user = User.objects.filter(username=request.subject, is_active=True).first()
    of_account = ChangeRequest.objects.filter(kind=KIND, subject=request.subject, state=RequestState.CONFIRMED)
    is_newest = not of_account.filter(decided_at__gt=request.decided_at).exists()
    if user is None or user.has_usable_password() or not is_newest:
        return None
    halves = make_halves(user, request.decided_at)
    if halves is None or person not in (request.asked_by, request.decided_by):
        return None
    return Halves("", halves.code) if person == request.asked_by else Halves(halves.path, "")


def _lock_active(username: str, by: str) -> User:
    user = lock_account(username, by)
    if not user.is_active:
        raise OperationRefused(f"{user} is not active.")
    return user


def _lock_for_sending(username: str, by: str) -> User:
    user = _lock_active(username, by)
    if not sends_links():
        raise OperationRefused(
            "No link can be sent, as EMAIL_URL or CONSOLE_URL is not set: make one with a second person."
        )
    if not user.email:
        raise OperationRefused(f"{user} has no e-mail address.")
    is_known = read_hands().is_address_known(username, since=utc_now())
    if settings.FOUR_EYES and not is_known and not acts_alone(by):
        raise OperationRefused(
            f"One person alone has given {user} this e-mail address: make a one-time link with a second person."
        )
    return user


def _send(user: User, link: str, by: str) -> None:
    host = settings.CONSOLE_URL.partition("//")[2]
    try:
        send_mail(_SUBJECT.format(host=host), _TEXT.format(by=by, user=user, link=link), to=[user.email])
    except MailNotSent as trouble:
        # What the server answers may quote what it was sent.
        raise OperationRefused("Nothing was done: the mail server did not take the e-mail.") from trouble


def _renew(user: User, password: str, by: str, reason: str) -> None:
    """Let nothing open an account any more that did so before: a password, a session, an earlier link."""
    user.password = password
    user.save(update_fields=["password"])
    sessions.end_sessions(user, by=by, reason=reason)

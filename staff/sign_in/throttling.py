"""Limits on wrong passwords and codes, counted in the database for all processes.

axes asks `Throttle` before each attempt and tells it of each failure. An attempt holds a lock on its client's network
from the question to the count: attempts at the same time do not slip through together.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.handlers.proxy import AxesProxyHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_login_failed
from django.db import transaction
from django.db.models import F, Sum
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from foundation.api.client_address import client_address
from foundation.database import SIGN_IN_LOCK, lock_name
from foundation.error_pages import refuse_sign_in
from staff.sign_in.recording import record_failure, record_lock

PASSWORD, CODE = "password", "code"
_PREFIX_IPV6 = 64  # one subscriber has at least as many addresses


@dataclass(frozen=True, slots=True)
class Limit:
    """So many failures within 15 minutes are the most, by those of the attempt's `columns`."""

    most: int
    columns: tuple[str, ...]


# axes has no column for the kind of an attempt; the browser's name, which its sender chooses, is of no use here.
LIMITS = (
    Limit(5, ("username", "ip_address")),
    Limit(20, ("ip_address",)),
)
# To be asked for a code takes the password: nobody else is locked out by this, from wherever the codes come.
LIMITS_OF_CODES = (*LIMITS, Limit(10, ("username", "user_agent")))


class Throttle(AxesDatabaseHandler):
    """Count failures by name, network and kind, and lock out beyond the limits."""

    def is_locked(self, request: Any, credentials: Mapping[str, Any] | None = None) -> bool:
        attempt = _attempt(request, credentials)
        limits = LIMITS_OF_CODES if attempt["user_agent"] == CODE else LIMITS
        return any(_failures(attempt, limit.columns) >= limit.most for limit in limits)

    def user_login_failed(self, sender: Any, credentials: Any, request: Any = None, **_kwargs: Any) -> None:
        if self.is_locked(request, credentials):
            request.axes_locked_out = True
            return
        attempt = _attempt(request, credentials)
        AccessAttempt.objects.filter(attempt_time__lte=_since()).delete()
        given = {"failures_since_start": 0, "path_info": request.path_info[:255]}
        row, _ = AccessAttempt.objects.get_or_create(**attempt, defaults=given)
        AccessAttempt.objects.filter(pk=row.pk).update(
            failures_since_start=F("failures_since_start") + 1, attempt_time=timezone.now()
        )
        record_failure(request, attempt["username"], attempt["user_agent"])
        if self.is_locked(request, credentials):
            request.axes_locked_out = True
            record_lock(request, attempt["username"])

    def user_logged_in(self, sender: Any, request: Any, user: Any, **_kwargs: Any) -> None:
        """Forget what this person failed at from here: in the end they succeeded."""
        AccessAttempt.objects.filter(username=_name(user.get_username()), ip_address=request.axes_ip_address).delete()

    def user_logged_out(self, *_args: Any, **_kwargs: Any) -> None:
        """Keep no log of sign-outs: the audit does."""


def network_of(request: HttpRequest) -> str | None:
    """Name the network that a client can choose its addresses in; None if its address is not known."""
    address = client_address(request.META)
    if address is None or not isinstance(ip_address(address), IPv6Address):
        return address
    return str(ip_network(f"{address}/{_PREFIX_IPV6}", strict=False).network_address)


@contextmanager
def one_attempt(request: HttpRequest) -> Iterator[None]:
    """Let the attempts of a network come one after the other, each in a transaction with its count."""
    with transaction.atomic():
        lock_name(SIGN_IN_LOCK, network_of(request) or "")
        yield


def one_at_a_time(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Make each form that is sent to a view one attempt."""

    @wraps(view)
    def attempt(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method != "POST":
            return view(request, *args, **kwargs)
        with one_attempt(request):
            return view(request, *args, **kwargs)

    return attempt


def may_try(request: Any, user: User, kind: str) -> bool:
    """Tell whether somebody who is known may try a password or a code; else the answer is that they are locked out."""
    is_allowed = AxesProxyHandler.is_allowed(request, _credentials(user, kind))
    request.axes_locked_out = not is_allowed
    return bool(is_allowed)


def note_failure(request: HttpRequest, user: User, kind: str) -> None:
    """Count a wrong password or code of somebody who is known."""
    user_login_failed.send(sender=__name__, credentials=_credentials(user, kind), request=request)


def answer_locked_out(request: HttpRequest, _response: HttpResponse, _credentials: Any) -> HttpResponse:
    """Answer an attempt beyond the limits, whether it was right or wrong."""
    return refuse_sign_in(request, retry_after_s=int(settings.AXES_COOLOFF_TIME.total_seconds()))


def locked_out() -> Any:
    """Find the attempts that count at the moment."""
    return AccessAttempt.objects.filter(attempt_time__gt=_since()).order_by("-attempt_time")


def let_in(username: str, *, forgets_codes: bool = False) -> int:
    """Forget the wrong passwords under a name, so that its owner may try again; returns how many they were.

    Wrong codes count on unless `forgets_codes`: an Administrator may know the password, which a one-time link sets, and
    would guess the code as often as they like.
    """
    rows = AccessAttempt.objects.filter(username=_name(username))
    rows = rows if forgets_codes else rows.filter(user_agent=PASSWORD)
    count: int = rows.aggregate(count=Sum("failures_since_start"))["count"] or 0
    rows.delete()
    return count


def _credentials(user: User, kind: str) -> dict[str, str]:
    return {"username": user.get_username(), "kind": kind}


def _attempt(request: Any, credentials: Mapping[str, Any] | None) -> dict[str, Any]:
    given = credentials or {}
    return {
        "username": _name(str(given.get("username", ""))),
        "ip_address": request.axes_ip_address,
        "user_agent": given.get("kind", PASSWORD),
    }


def _failures(attempt: Mapping[str, Any], columns: tuple[str, ...]) -> int:
    rows = AccessAttempt.objects.filter(attempt_time__gt=_since(), **{name: attempt[name] for name in columns})
    return int(rows.aggregate(count=Sum("failures_since_start"))["count"] or 0)


def _since() -> Any:
    return timezone.now() - settings.AXES_COOLOFF_TIME


def _name(username: str) -> str:
    return username.strip().lower()[:150]

"""What somebody has sent, kept in their session for an hour: the page that asks about it is redirected to.

So the browser's Back finds each step of an action, and a form that was sent when its session had ended, or before its
author had proved who they are, is shown again as they had filled it in.

Looking does nothing. A page is shown from what says which question it asks (`_QUESTION`); what was typed is only filled
into the form on it, and counts once it is sent again.
"""

import hashlib
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import HttpRequest, QueryDict
from django.urls import Resolver404, resolve

STEP = "step"  # the parameter of an address
_NAME = "kept"  # in the session
_LASTS_S = 3600
_MOST_KEPT, _MOST_CHARACTERS = 12, 100_000
# An action, its rows, where it began, and what was shown of it: without anything else, no action does anything.
_QUESTION = frozenset({"action", "index", "_selected_action", "from_page", "sealed"})
_NOT_KEPT = frozenset({"csrfmiddlewaretoken"})
_GONE = (
    "The page that you come back to was sent, or it is older than an hour. Nothing was done now: look at what became "
    "of it, and begin again if there is need."
)
_LATE = (
    "You were signed out before this was sent, so nothing was done. What you had filled in stands below: look at it, "
    "and send it again."
)


@dataclass(frozen=True, slots=True)
class Kept:
    """What was sent. `said`: what was said against it, beyond what its form says. `is_late`: its session had ended."""

    token: str
    sent: QueryDict
    said: list[str]
    is_late: bool

    @property
    def question(self) -> QueryDict:
        """What says which page it is."""
        return _query((name, values) for name, values in self.sent.lists() if name in _QUESTION)


def is_kept_of(path: str) -> bool:
    """Tell whether forms of an address are kept: those of rows and actions, never those of passwords and codes."""
    try:
        return "admin" in resolve(f"{path.removesuffix('/')}/").namespaces
    except Resolver404:
        return False


def keep(request: HttpRequest, *, said: Iterable[Any] = (), sealed: str = "", person: int | None = None) -> str:
    """Keep what was sent here, and give the address of the page that shows it.

    `said`: what is said against it. `sealed`: what the page is made of. `person`: whose session has ended; without it,
    that of who asks. What is sent twice is kept once.
    """
    if not is_kept_of(request.path):
        return request.get_full_path()
    sent = {name: values for name, values in request.POST.lists() if name not in _NOT_KEPT}
    one = {
        "path": request.path,
        "sent": [*(sent | ({"sealed": [sealed]} if sealed else {})).items()],
        "said": [str(sentence) for sentence in said],
        "is_late": person is not None,
        "person": person or request.user.pk,
    }
    token = hashlib.sha256(json.dumps(one).encode()).hexdigest()[:32]
    others = {key: kept for key, kept in read_all(request).items() if key != token}
    write_all(request, {**others, token: {**one, "at": time.time()}})
    request.is_asking = True  # type: ignore[attr-defined]
    return address_of(request, token)


def find_kept(request: HttpRequest) -> Kept | None:
    """Find what the address of a page names, if it is this person's and was sent there; say if it is gone."""
    token = _token(request)
    if request.method not in ("GET", "HEAD") or not token:
        return None
    if not hasattr(request, "kept"):
        request.kept = _find(request, token)  # type: ignore[attr-defined]
    found: Kept | None = request.kept  # type: ignore[attr-defined]
    return found


def sent(request: HttpRequest) -> QueryDict | None:
    """Give what is sent now, or was sent to this page before; None: nothing. Only what is sent now may do anything."""
    kept = find_kept(request)
    return request.POST or (kept.sent if kept else None)


def forget(request: HttpRequest) -> None:
    """Forget the page that something was sent from, unless that leads to another page: it is done, or refused."""
    kept = read_all(request)
    if not hasattr(request, "is_asking") and kept.pop(_token(request), None):
        write_all(request, kept)


def leave_to(request: HttpRequest, person: int) -> None:
    """Leave to who signs in what they have sent before, in this browser, and nothing of anybody else's."""
    write_all(request, {token: one for token, one in read_all(request).items() if one["person"] == person})


def is_step(request: HttpRequest) -> bool:
    """Tell whether an address names a kept page."""
    return bool(_token(request))


def take_step(request: HttpRequest) -> bool:
    """Take what names a kept page out of an address, which a list would filter by; returns whether it was there."""
    request.step = request.GET.get(STEP, "")  # type: ignore[attr-defined]
    if STEP in request.GET:
        request.GET = _query((name, values) for name, values in request.GET.lists() if name != STEP)  # type: ignore[assignment]
        request.META["QUERY_STRING"] = request.GET.urlencode()
    return is_step(request)


def address_of(request: HttpRequest, token: str | None = None) -> str:
    """Address this page with what is kept under a token; without one, as it was asked for."""
    query = request.GET.copy()
    query.pop(STEP, None)
    if named := token or _token(request):
        query[STEP] = named
    return f"{request.path}?{query.urlencode()}" if query else request.path


def fill_in(form: forms.Form, kept: Kept) -> None:
    """Fill in what was typed, and say what is wrong with it; hidden fields keep what the page has put there."""
    visible = {field.html_name for field in form.visible_fields()}
    if form.is_bound or not visible & set(kept.sent):
        return
    hidden = ((field.html_name, _texts(field.initial)) for field in form.hidden_fields())
    typed = ((name, kept.sent.getlist(name)) for name in visible if name in kept.sent)
    form.data, form.is_bound = _query([*hidden, *typed]), True
    for sentence in kept.said:
        if sentence not in form.non_field_errors():
            form.add_error(None, sentence)


def _token(request: HttpRequest) -> str:
    return str(getattr(request, "step", "") or request.GET.get(STEP, ""))


def _find(request: HttpRequest, token: str) -> Kept | None:
    one = read_all(request).get(token)
    if one is None or (one["path"], one["person"]) != (request.path, request.user.pk):
        messages.warning(request, _GONE)
        return None
    if one["is_late"]:
        messages.warning(request, _LATE)
    return Kept(token, _query(one["sent"]), one["said"], one["is_late"])


def read_all(request: HttpRequest) -> dict[str, Any]:
    """Read all that is kept in a session."""
    kept: dict[str, Any] = request.session.get(_NAME, {})
    return {token: one for token, one in kept.items() if time.time() - one["at"] < _LASTS_S}


def write_all(request: HttpRequest, kept: dict[str, Any]) -> None:
    """Write the newest, as far as they fit: a session is read with every page."""
    newest: dict[str, Any] = {}
    for token, one in sorted(kept.items(), key=lambda item: -item[1]["at"])[:_MOST_KEPT]:
        if newest and len(json.dumps([newest, one])) > _MOST_CHARACTERS:
            break
        newest[token] = one
    request.session[_NAME] = newest


def _query(lists: Iterable[Any]) -> QueryDict:
    return QueryDict(urlencode([(name, value) for name, values in lists for value in values]))


def _texts(value: Any) -> list[str]:
    several = value if isinstance(value, list | tuple) else [value]
    return [str(one) for one in several if one is not None]

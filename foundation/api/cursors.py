"""Opaque page cursors: signed, URL-safe, bound to the filters they were made for. They never expire."""

from django.core.signing import BadSignature, Signer

from foundation.kernel.errors import InvalidRequest


def write_cursor(position: str, filters: dict[str, str | None]) -> str:
    """Wrap the id of the last element shown."""
    return _signer().sign_object([position, filters])


def read_cursor(cursor: str, filters: dict[str, str | None]) -> str:
    """Unwrap the id of the last element shown.

    Raises:
        InvalidRequest: damaged, made elsewhere, or made for other filters.
    """
    try:
        position, made_for = _signer().unsign_object(cursor)
    except (BadSignature, ValueError) as error:
        raise InvalidRequest.of("cursor", "This is not a cursor of ours.") from error
    if made_for != filters:
        raise InvalidRequest.of("cursor", "This cursor belongs to other filters.")
    return str(position)


def _signer() -> Signer:
    # The usual separator, ":", would have to be escaped in a URL.
    return Signer(salt="foundation.api.cursors", sep=".")

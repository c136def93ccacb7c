"""The form of a decision on services in the console, and what it posts of each service that was shown."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.core import signing
from django.core.exceptions import SuspiciousOperation

from staff.audit import MAX_REASON_LENGTH

_MOST_DIGITS = 9  # of a registration number
_SALT = "services.approvals"

Facts = list[tuple[str, str]]


class ReasonForm(forms.Form):
    """Why it is decided so."""

    reason = forms.CharField(
        label="Reason",
        max_length=MAX_REASON_LENGTH,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="It is kept with the decision, for those who ask later.",
    )

    def __init__(self, posted: Any = None, *, is_required: bool) -> None:
        super().__init__(posted)
        self.fields["reason"].required = is_required
        if not is_required:
            self.fields["reason"].label = "Reason (may be left empty)"


def read_shown(lines: Sequence[str]) -> dict[str, int]:
    """Read which registration of each service was shown."""
    return dict(map(_read_line, lines))


def seal(service_id: str, registration: int, facts: Facts) -> str:
    """Sign what is shown of a service, so that a second person can be shown the same."""
    return signing.dumps([service_id, registration, facts], salt=_SALT, compress=True)


def unseal(sealed: Sequence[str]) -> dict[tuple[str, int], Facts]:
    """Read what was shown of the registrations of services."""
    try:
        read = [signing.loads(text, salt=_SALT) for text in sealed]
    except signing.BadSignature as error:
        raise SuspiciousOperation("What was shown is not what this console showed.") from error
    return {(service_id, number): [(label, text) for label, text in facts] for service_id, number, facts in read}


def _read_line(line: str) -> tuple[str, int]:
    number, _, service_id = line.partition(" ")
    if not number.isdecimal() or len(number) > _MOST_DIGITS:
        raise SuspiciousOperation("What is approved must be a registration that was shown.")
    return service_id, int(number)

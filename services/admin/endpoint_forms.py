"""The forms of actions on webhook endpoints in the console."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms

from foundation.kernel.times import utc_now

_BY_DEFAULT = timedelta(hours=24)


class ConfirmationForm(forms.Form):
    """A confirmation without any other field."""

    is_meant = forms.BooleanField(initial=True, widget=forms.HiddenInput)

    def __init__(self, posted: Any) -> None:
        super().__init__(posted if "is_meant" in posted else None)


class ReplayForm(forms.Form):
    """A moment in UTC. `counted` is the moment for which the page said how many events were made since."""

    since = forms.DateTimeField(
        label="Since (UTC)",
        help_text="Every event made at this moment or later is sent again, except tests.",
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M:%S", attrs={"type": "datetime-local", "step": "1"}),
    )
    counted = forms.DateTimeField(required=False, widget=forms.HiddenInput)

    @classmethod
    def read(cls, posted: Any) -> "ReplayForm":
        """Read what was posted; the default moment if nothing was."""
        return cls(posted) if "since" in posted else cls.about(utc_now() - _BY_DEFAULT)

    @classmethod
    def about(cls, since: datetime) -> "ReplayForm":
        """Ask about a moment that the page counts for."""
        since = since.replace(microsecond=0)
        return cls(initial={"since": since, "counted": since})

    @property
    def moment(self) -> datetime | None:
        """The moment that the form is about, if it is one."""
        moment: datetime | None = self.cleaned_data.get("since") if self.is_bound else self.initial["since"]
        return moment

    @property
    def is_answered(self) -> bool:
        """Whether the moment is the one that was counted for."""
        return self.is_valid() and self.cleaned_data["since"] == self.cleaned_data["counted"]

    def clean_since(self) -> datetime:
        since: datetime = self.cleaned_data["since"]
        try:
            return since.astimezone(UTC).replace(microsecond=0)
        except OverflowError as error:
            raise forms.ValidationError("Enter a moment between the years 1 and 9999.") from error

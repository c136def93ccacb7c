"""The forms of alarms in the console."""

from django import forms


class AcknowledgementForm(forms.Form):
    """What is being done about an alarm."""

    reason = forms.CharField(max_length=500, label="What is being done about it", help_text="Kept in the audit.")

"""What people look for in the audit, and the entries that are it."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

from django import forms
from django.db.models import QuerySet

from foundation.database import fetch_rows
from staff.models import AuditEntry
from staff.words import name_action, name_subject_type

# There are few kinds of actions and very many entries: from each, the index leads to the next.
_EACH_ACTION = """
    WITH RECURSIVE known AS (
        (SELECT action FROM staff_auditentry ORDER BY action LIMIT 1)
        UNION ALL
        SELECT (SELECT action FROM staff_auditentry WHERE action > known.action ORDER BY action LIMIT 1)
          FROM known WHERE known.action IS NOT NULL
    )
    SELECT action FROM known WHERE action IS NOT NULL
"""


class AuditFilter(forms.Form):
    """A filter of the audit; what is left empty does not matter. Days are those of UTC."""

    since = forms.DateField(required=False, label="From", widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(required=False, label="Until", widget=forms.DateInput(attrs={"type": "date"}))
    author = forms.CharField(required=False, max_length=150, label="Author")
    action = forms.ChoiceField(required=False, label="Action")
    subject_type = forms.ChoiceField(required=False, label="Kind of subject")
    q = forms.CharField(required=False, max_length=255, strip=False, label="ID of the subject")

    def __init__(self, asked: Any) -> None:
        super().__init__(asked, auto_id="filter_%s")
        actions = [action for (action,) in fetch_rows(_EACH_ACTION, {})]
        kinds = dict.fromkeys(action.partition(".")[0] for action in actions)
        self._offer("action", [(action, name_action(action)) for action in actions])
        self._offer("subject_type", [(kind, name_subject_type(kind)) for kind in kinds])

    def entries(self) -> QuerySet[AuditEntry]:
        """Find what is asked for, newest first; nothing if that makes no sense."""
        found = AuditEntry.objects.all()
        if not self.is_valid():
            return found.none()
        asked = self.cleaned_data
        if asked["since"]:
            found = found.filter(at__gte=_begin(asked["since"]))
        if asked["until"]:
            found = found.filter(at__lt=_begin(asked["until"]) + timedelta(days=1))
        same = {"author": "author", "action": "action", "subject_type": "subject_type", "q": "subject"}
        return found.filter(**{field: asked[name] for name, field in same.items() if asked[name]})

    def _offer(self, field: str, choices: list[tuple[str, str]]) -> None:
        offered = sorted(choices, key=lambda choice: choice[1])
        self.fields[field].choices = [("", "All"), *offered]  # type: ignore[attr-defined]


def _begin(day: Any) -> datetime:
    return datetime.combine(day, time.min, UTC)

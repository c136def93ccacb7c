"""The page of the console that shows the rows of an action and asks for confirmation before it runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.admin import ModelAdmin
from django.forms import Form
from django.http import HttpRequest, HttpResponse

from foundation.console.views import show_form


@dataclass(frozen=True, slots=True)
class Shown:
    """A row of an action: its key, its name, and the facts to decide by, each with its name."""

    key: str
    name: str
    facts: Mapping[str, Any]


def confirm(
    model_admin: ModelAdmin,
    request: HttpRequest,
    *,
    action: str,
    title: str,
    explanation: str,
    rows: Iterable[Shown],
    form: Form,
    button: str = "",
    sealed: str = "",
) -> HttpResponse:
    """Show the rows and the form of an action; what is posted from there runs the same action again.

    `button`: what the button says; without it, the title. `sealed`: what the page was made of, so that it is shown
    again as it was.
    """
    context = {
        "opts": model_admin.opts,
        "action": action,
        "title": title,
        "explanation": explanation,
        "rows": list(rows),
        "form": form,
        "button": button or title,
    }
    return show_form(request, "admin/confirm.html", context, sealed=sealed)

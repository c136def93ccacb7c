"""The page of the console that shows the rows of an action and asks for confirmation before it runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.admin import ModelAdmin
from django.forms import Form
from django.http import HttpRequest
from django.template.response import TemplateResponse


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
) -> TemplateResponse:
    """Show the rows and the form of an action; what is posted from there runs the same action again."""
    context = {
        **model_admin.admin_site.each_context(request),
        "opts": model_admin.opts,
        "action": action,
        "title": title,
        "explanation": explanation,
        "rows": list(rows),
        "form": form,
    }
    return TemplateResponse(request, "admin/confirm.html", context)

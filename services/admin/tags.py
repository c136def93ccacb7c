"""Set the tags of a payee in the console, and find the payees that have one."""

from functools import partial
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.db.models import F, Func, QuerySet
from django.http import HttpRequest, HttpResponse

from foundation.console.pages import ReadOnlyAdmin
from policy.tags import parse_tags, write_tags
from services.models import Service
from services.tag_changes import adds_tags, propose_tags, words_of
from staff.asking import Step, ask

_WHY = (
    "Agents whose policies allow a tag can pay every approved payee that has it, and those whose policies allow it no "
    "more cannot from the next payment on. Where four eyes are on, a second person has to confirm a tag that is added; "
    "what only takes tags away happens at once."
)


class TagsForm(forms.Form):
    """All tags that a payee is to have."""

    tags = forms.CharField(
        required=False,
        label="Tags",
        help_text="All that it is to have, with commas between them, such as compute, data. Empty: none.",
        widget=forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off", "spellcheck": "false"}),
    )

    def __init__(self, service: Service, posted: Any) -> None:
        initial = {"tags": write_tags(service.tags)}
        super().__init__(posted if "tags" in posted else None, initial=initial, auto_id="id_%s")

    def clean_tags(self) -> list[str]:
        try:
            return list(parse_tags(self.cleaned_data["tags"]))
        except ValueError as error:
            raise forms.ValidationError(str(error).replace("`", "")) from error


class TagFilter(admin.SimpleListFilter):
    """The tags that payees have."""

    title = "tag"
    parameter_name = "tag"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        tags = Service.objects.order_by().annotate(tag=Func(F("tags"), function="unnest")).values_list("tag", flat=True)
        return [(tag, tag) for tag in sorted(tags.distinct())]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Service]) -> QuerySet[Service]:
        return queryset.filter(tags__contains=[self.value()]) if self.value() else queryset


class TagActions(ReadOnlyAdmin):
    """The action that sets the tags of a payee."""

    fieldsets: ClassVar[Any] = None  # as in ReadOnlyAdmin

    @admin.action(description="Set tags … (asks which, and for the reason)", permissions=["operate"])
    def tag(self, request: HttpRequest, services: QuerySet[Service]) -> HttpResponse | None:
        if len(services) != 1:
            self.message_user(request, "Choose one payee: each has its own tags.", messages.ERROR)
            return None
        service = services[0]
        step = Step(
            "Set tags",
            _WHY,
            lambda row, asked: propose_tags(row, asked["tags"]),
            _facts,
            partial(TagsForm, service),
            needs_second=lambda proposal: adds_tags(proposal.arguments),
        )
        return ask(self, request, [service], step)


def _facts(service: Service) -> dict[str, str]:
    return {
        "Name": service.name,
        "Recipient": service.canonical_recipient,
        "Status": service.get_status_display().lower(),
        "Tags": words_of(service.tags),
    }

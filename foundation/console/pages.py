"""The base of all pages of the console: they show rows and never change them; finance staff act through actions.

Django's `view` permission on a model lets staff see its rows, `change` lets them act on rows. Every action calls the
operation that the command line calls.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME, ActionForm
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from foundation.console.kept import find_kept, forget, take_step
from foundation.console.lookups import is_offered
from foundation.console.paging import CappedPaginator
from foundation.database import only_looking
from foundation.groups import are_of_groups
from foundation.kernel.errors import OperationRefused

if TYPE_CHECKING:  # Unfold has no types of its own
    from django.contrib.admin import ModelAdmin
    from django.contrib.admin.views.main import ChangeList
else:
    from unfold.admin import ModelAdmin
    from unfold.views import ChangeList


class MergedList(ChangeList):
    """The rows of a list's page; where they are of several groups of agents, always as its paginator merges them."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if are_of_groups(self.queryset):
            self.result_list = self.paginator.page(self.page_num).object_list


class ReadOnlyAdmin(ModelAdmin):
    """Pages that show rows and change none. Actions marked `permissions=["operate"]` need `change` on the model."""

    empty_value_display = "—"
    list_title = ""  # without it: what the rows are called
    add_words = ""  # of the button that makes a row; without it: "Add", and what a row is called
    list_per_page = 50
    list_max_show_all = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    fields: ClassVar[Any] = None  # the stubs do not know that columns may stand here, too
    fieldsets: ClassVar[Any] = None
    paginator = CappedPaginator
    time_field = ""  # of rows that have numbers: each group of agents counts by itself
    action_form = ActionForm

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return super().has_change_permission(request)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Filter by what the list offers alone: by any other column, an address could guess what no page shows."""
        return is_offered(lookup, self.list_filter, self.model) and super().lookup_allowed(lookup, value, request)

    @admin.display(description="action-toggle")  # the list's template makes a box of it
    def action_checkbox(self, obj: Model) -> SafeString:
        return admin.ModelAdmin.action_checkbox(self, obj)  # Unfold's has no name for those who do not see it

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **options: Any) -> Any:
        row = context.get("original")
        known = {
            "row_actions": self.buttons(request, row),
            "audit_subject": self.audit_subject(row) if row and self.actions else "",
        }
        return super().render_change_form(request, {**context, **known}, *args, **options)

    def buttons(self, request: HttpRequest, row: Any) -> list[tuple[str, str, str]]:
        """Give the actions that a person may begin on the page of a row: name, words, and all words."""
        names = [one for one in self.get_action_choices(request) if one[0] and self.is_possible(one[0], row)]
        return [(name, _shorten(words), words) for name, words in names]

    def is_possible(self, action: str, row: Any) -> bool:
        """Tell whether the state of a row admits an action: its page has no other buttons."""
        return True

    def audit_subject(self, row: Model) -> str:
        """Give the id that the audit has of a row."""
        return str(row.pk)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Lead to the audit, which has the history of every row."""
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404
        found = urlencode({"q": self.audit_subject(row)})
        return HttpResponseRedirect(f"{reverse('admin:staff_auditentry_changelist')}?{found}")

    def _get_obj_does_not_exist_redirect(self, *_args: Any) -> HttpResponse:
        """Answer as for any other address that names nothing: Django would lead to the front page."""
        raise Http404

    def get_paginator(self, *arguments: Any, **options: Any) -> Paginator:
        paginator: Any = super().get_paginator(*arguments, **options)
        paginator.time_field = self.time_field
        return paginator  # type: ignore[no-any-return]

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[ChangeList]:
        return MergedList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        is_step = take_step(request)
        if is_step and request.method != "POST":
            return self._show_step(request)
        # Django answers an action that is not offered with the list. Without a choice, it asks to make one.
        if request.method == "POST" and request.POST.get("action") not in {"", *self.get_actions(request)}:
            raise PermissionDenied
        title = self.list_title or capfirst(self.opts.verbose_name_plural)
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def _show_step(self, request: HttpRequest) -> HttpResponse:
        """Show the page on which an action asks for something: the action runs again, without any of the answers."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        kept = find_kept(request)
        if kept is None:
            return HttpResponseRedirect(request.get_full_path())
        offered = self.get_actions(request).get(kept.sent.get("action", ""))
        if offered is None:
            raise PermissionDenied
        request.POST = kept.question  # type: ignore[assignment]
        rows = self.get_queryset(request).filter(pk__in=kept.sent.getlist(ACTION_CHECKBOX_NAME))
        with only_looking():
            response: Any = offered[0](self, request, rows)
            if hasattr(response, "render"):
                response.render()
        return response or HttpResponseRedirect(self._page_of(request))

    def response_action(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Run an action; somebody who began it on the page of a row comes back to that page."""
        response = super().response_action(request, queryset)
        forget(request)
        # Django leads back to the list; an action that leads elsewhere itself is followed.
        if isinstance(response, HttpResponseRedirect) and response.url == request.get_full_path():
            return HttpResponseRedirect(self._page_of(request))
        return response

    def _page_of(self, request: HttpRequest) -> str:
        """Address the page on which an action was begun: a row's, or the list as it was filtered."""
        if "from_page" not in request.POST:
            return request.get_full_path()
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        return reverse(name, args=[quote(request.POST["from_page"])])

    def perform(
        self,
        request: HttpRequest,
        ids: Iterable[str],
        operation: Callable[[str], Model | str],
        done: str = "",
    ) -> None:
        """Call an operation on each row; show of each `done` and the row's name, or what the operation says."""
        if request.method != "POST":  # an action that asks for nothing is looked at
            self.message_user(request, "Nothing was done: choose it once more.", messages.WARNING)
            return
        for row_id in ids:
            try:
                row = operation(row_id)
            except OperationRefused as refusal:
                self.message_user(request, str(refusal), messages.ERROR)
            else:
                self.message_user(request, f"{done} {row}." if done else str(row), messages.SUCCESS)


def _shorten(words: str) -> str:
    """Leave out what an action's words explain in parentheses: `Pause … (approve none of its payments)`."""
    return words.partition(" (")[0]

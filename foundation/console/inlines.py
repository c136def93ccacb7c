"""Rows that belong to another, shown below it on its page of the console."""

from typing import TYPE_CHECKING, Any, ClassVar

from django.db.models import Model
from django.forms.models import BaseInlineFormSet
from django.http import HttpRequest

if TYPE_CHECKING:  # Unfold has no types of its own
    from django.contrib.admin import TabularInline
else:
    from unfold.admin import TabularInline

ROWS_INLINE = 20


class NewestFormSet(BaseInlineFormSet):
    """The first rows in the inline's order: there may be very many more."""

    most_rows = ROWS_INLINE

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        rows: Any = self.queryset
        self.queryset = rows[: self.most_rows]


class ReadOnlyInline(TabularInline):
    """The newest rows that belong to another, below it."""

    fields: ClassVar[Any] = None  # as in ReadOnlyAdmin
    formset = NewestFormSet
    extra = 0

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.fields

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

"""Pages of the console that are not the list or the form of one model."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse

View = Callable[..., HttpResponseBase]


def staff_page(*permissions: str) -> Callable[[View], View]:
    """Make a view a page of the console: for staff who have one of the permissions; without any, for all staff."""

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if permissions and not any(request.user.has_perm(one) for one in permissions):
                raise PermissionDenied
            return view(request, *args, **kwargs)

        guard: View = admin.site.admin_view(guarded)
        return guard

    return decorate


def show_page(request: HttpRequest, template: str, *, title: str, **context: Any) -> TemplateResponse:
    """Show a page inside the console's frame; its template extends `console/page.html`."""
    return TemplateResponse(request, template, {**admin.site.each_context(request), "title": title, **context})

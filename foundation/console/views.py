"""Pages of the console that are not the list or the form of one model."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.forms import Form
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse

from foundation.console.kept import fill_in, find_kept, keep

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


def show_page(request: HttpRequest, template: str, *, title: str, **context: Any) -> HttpResponse:
    """Show a page inside the console's frame; its template extends `console/page.html`.

    One with a `form` is shown as `show_form` does.
    """
    if "form" in context:
        return show_form(request, template, {"title": title, **context})
    return TemplateResponse(request, template, {**admin.site.each_context(request), "title": title, **context})


def show_form(request: HttpRequest, template: str, context: dict[str, Any], *, sealed: str = "") -> HttpResponse:
    """Show a page whose form asks for something, filled in with what was sent to it and kept."""
    form = context["form"]
    if request.method == "POST":
        return lead_to_page(request, form, sealed=sealed)
    if (kept := find_kept(request)) is not None:
        fill_in(form, kept)
    return TemplateResponse(request, template, {**admin.site.each_context(request), **context})


def lead_to_page(request: HttpRequest, form: Form, *, sealed: str = "") -> HttpResponse:
    """Lead to the page that asks about what was sent, which is kept with what the form says against it.

    So reloading that page, or going back to it, sends nothing.
    """
    said = form.non_field_errors() if form.is_bound else ()
    return HttpResponseRedirect(keep(request, said=said, sealed=sealed))

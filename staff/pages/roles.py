"""The page that says in words what each role may do."""

from django.http import HttpRequest, HttpResponse

from foundation.console.views import show_page, staff_page
from staff.roles import ROLES


@staff_page()
def roles(request: HttpRequest) -> HttpResponse:
    """Show the roles to all staff."""
    return show_page(request, "console/roles.html", title="Roles", roles=ROLES)

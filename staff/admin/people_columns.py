"""What the pages of people show of an account."""

from typing import Any, ClassVar

from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html

from foundation.console.pages import ReadOnlyAdmin
from foundation.kernel.times import utc_now
from staff.independence import read_hands


class PeopleColumns(ReadOnlyAdmin):
    """The columns, for the list of accounts and for the page of each."""

    fields: ClassVar[Any] = None  # as in ReadOnlyAdmin
    fieldsets: ClassVar[Any] = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        totp = Authenticator.objects.filter(user=OuterRef("pk"), type=Authenticator.Type.TOTP)
        people_: QuerySet[User] = super().get_queryset(request)
        return people_.prefetch_related("groups").annotate(has_factor=Exists(totp))

    @admin.display(description="roles")
    def shown_roles(self, user: User) -> str:
        names = sorted(group.name for group in user.groups.all())
        return ", ".join([*(["Superuser"] if user.is_superuser else []), *names]) or "—"

    @admin.display(description="state")
    def shown_state(self, user: User) -> str:
        state = "active" if user.is_active and user.is_staff else "disabled"
        return format_html('<span class="badge {}">{}</span>', state, state)

    @admin.display(description="second factor")
    def shown_factor(self, user: Any) -> str:
        return "set up" if user.has_factor else "none"

    @admin.display(description="sessions")
    def shown_sessions(self, user: User) -> str:
        seen = UserSession.objects.filter(user=user).order_by("-last_seen_at")
        return "; ".join(f"{one.ip}, last seen {one.last_seen_at:%Y-%m-%d %H:%M} UTC" for one in seen) or "none"

    @admin.display(description="in hand of")
    def shown_hands(self, user: User) -> str:
        """Say who else could use an account, and what follows."""
        holders = sorted(read_hands().holders_of(user.username, since=utc_now()))
        if not holders:
            return "nobody else"
        return (
            f"{_listed(holders)}, who could use this account: they made it, or saw a link for it, without a second "
            "person. It can be no second person of theirs, nor of another account that they could use. A one-time link "
            "that is sent, or made by two, ends that an hour later."
        )

    @admin.display(description="not independent of")
    def shown_parts(self, user: User) -> str:
        """Say who had a part in making or changing an account, and what follows."""
        people = sorted(read_hands().parts_in(user.username))
        if not people:
            return "nobody who had a part in making or changing it"
        return f"{_listed(people)}, who had a part in making or changing it. None can be a second person of the other."

    def facts_of(self, user: User) -> dict[str, str]:
        """Tell who somebody is, for whoever decides about their account."""
        return {"Name": user.first_name or "—", "E-mail": user.email or "—", "Roles": self.shown_roles(user)}


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)

"""The archive of agents in the console: its filter, and what its actions say."""

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from policy.models import Agent, AgentStatus

# One that has money again, or that another release has resumed, is nothing to forget.
AT_REST = Q(archived_at__isnull=False, status=AgentStatus.PAUSED, balance=0)
_WHICH = {"archived": Q(archived_at__isnull=False), "all": Q()}

_WHY = (
    "Lists leave it out, it cannot be resumed, and the API keys that are bound to it are revoked. Its payments, log "
    "and statements stay where they are. It must be paused and have no money."
)
ARCHIVE = ("Archive", _WHY, "Archived")
RESTORE = ("Restore", "Lists show it again. It stays paused, and its API keys stay revoked.", "Restored")


class ArchiveFilter(admin.SimpleListFilter):
    """The agents in use, unless others are asked for."""

    title = "archive"
    parameter_name = "archive"
    any_words = "Not archived"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [("archived", "Archived"), ("all", "All")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Agent]) -> QuerySet[Agent]:
        # The page of an archived agent sends its actions to the list.
        unless_asked = Q() if request.method == "POST" else ~AT_REST
        return queryset.filter(_WHICH.get(self.value() or "", unless_asked))


def is_possible(action: str, agent: Agent) -> bool:
    """Tell whether the state of an agent admits an action: its page has no other buttons."""
    if agent.archived_at is not None:
        return action in ("restore", "adjust", "withdraw")
    if agent.status == AgentStatus.PAUSED:
        return action not in ("pause", "restore")
    return action not in ("resume", "archive", "restore")

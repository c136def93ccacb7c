"""`GET /v1/agents/:id/budget`, `GET /v1/logs` and `GET /v1/logs/{id}`."""

import json
from typing import Any

from django.http import Http404, HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.api.cursors import read_cursor, write_cursor
from foundation.api.views import ApiViewSet
from foundation.kernel.errors import InsufficientScope, InvalidRequest, LogEntryNotFound
from foundation.replica import from_replica
from ledger.queries import find_shown_entry, has_come_to, read_log_page
from ledger.serializers import LogQuerySerializer, present_budget
from policy.authentication import agent_asked_for, caller_of, may_act_for


class BudgetViewSet(ApiViewSet):
    required_scope = "budgets"

    @from_replica
    def retrieve(self, request: Request, agent_id: str) -> Response:
        """Return the current allowance balance, rolling spend and policy limits of an agent."""
        if not may_act_for(caller_of(request), agent_id):
            raise InsufficientScope
        return Response(present_budget(agent_id))


class LogViewSet(ApiViewSet):
    required_scope = "logs"
    queries = {"list": LogQuerySerializer()}  # stateless, so one instance serves all requests

    def list(self, request: Request) -> HttpResponse:
        """List approved and blocked decisions, newest first."""
        query = self.read_query(request)
        # Who looks for a key asks whether it has paid: an answer that is some seconds old would be a wrong one.
        read = self._list if "idempotencyKey" in query else from_replica(self._list)
        return read(request, query)

    def _list(self, request: Request, query: dict[str, Any]) -> HttpResponse:
        agent_id = agent_asked_for(caller_of(request), query.get("agentId"))
        key = query.get("idempotencyKey")
        if key is not None and agent_id is None:
            raise InvalidRequest.of("idempotencyKey", "Is looked for in the log of one agent: name it as agentId.")
        filters = {"agentId": agent_id, "result": query.get("result")}
        filters |= {} if key is None else {"idempotencyKey": key}  # without it, cursors of earlier releases hold
        cursor = query.get("cursor")
        before_id = None if cursor is None else read_cursor(cursor, filters)
        if before_id is not None and not has_come_to(before_id):
            raise Http404  # the page before was read elsewhere: `from_replica` reads this one there, too
        entries, has_more = read_log_page(
            agent_id=agent_id, result=filters["result"], key=key, before_id=before_id, size=query["limit"]
        )
        next_cursor = json.dumps(write_cursor(entries[-1].id, filters) if has_more else None)
        data = ",".join(entry.text for entry in entries)
        return HttpResponse(f'{{"data":[{data}],"nextCursor":{next_cursor}}}', content_type="application/json")

    @from_replica
    def retrieve(self, request: Request, log_id: str) -> HttpResponse:
        """Show one decision; that of another agent than the key's does not exist."""
        entry = find_shown_entry(log_id)
        if entry is None or not may_act_for(caller_of(request), entry.agent_id):
            raise LogEntryNotFound
        return HttpResponse(entry.text, content_type="application/json")

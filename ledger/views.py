"""`GET /v1/agents/:id/budget` and `GET /v1/logs`."""

from rest_framework.request import Request
from rest_framework.response import Response

from allowance.api.cursors import read_cursor, write_cursor
from allowance.api.views import ApiViewSet
from allowance.database import brief_read
from allowance.kernel.errors import InsufficientScope
from allowance.replica import from_replica
from ledger.queries import read_log_page
from ledger.receipts import receipt
from ledger.serializers import LogQuerySerializer, present_budget
from policy.authentication import caller_of, may_act_for


class BudgetViewSet(ApiViewSet):
    required_scope = "budgets"

    @from_replica
    @brief_read()
    def retrieve(self, request: Request, agent_id: str) -> Response:
        """Return the current allowance balance, rolling spend and policy limits of an agent."""
        if not may_act_for(caller_of(request), agent_id):
            raise InsufficientScope
        return Response(present_budget(agent_id))


class LogViewSet(ApiViewSet):
    required_scope = "logs"

    @from_replica
    @brief_read()
    def list(self, request: Request) -> Response:
        """List approved and blocked decisions, newest first."""
        query = LogQuerySerializer(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        agent_id = query.validated_data.get("agentId", caller_of(request).agent_id)
        if agent_id is not None and not may_act_for(caller_of(request), agent_id):
            raise InsufficientScope
        filters = {"agentId": agent_id, "result": query.validated_data.get("result")}
        cursor = query.validated_data.get("cursor")
        entries, has_more = read_log_page(
            agent_id=agent_id,
            result=filters["result"],
            before_id=None if cursor is None else read_cursor(cursor, filters),
            size=query.validated_data["limit"],
        )
        next_cursor = write_cursor(entries[-1].id, filters) if has_more else None
        return Response({"data": [receipt(entry) for entry in entries], "nextCursor": next_cursor})

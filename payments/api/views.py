"""`POST /v1/payments/request`."""

import logging
from collections.abc import Callable, Mapping
from functools import cache, partial
from http import HTTPStatus
from typing import Any, ClassVar

from django.conf import settings
from django.db import DatabaseError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from foundation.api.environ import ARRIVED_AT
from foundation.api.views import ApiViewSet
from foundation.database_sessions import SharedSessions
from foundation.groups import WHOLE, Group, group_of, within, within_group_of
from foundation.kernel.counters import PAYMENTS_UNAVAILABLE
from foundation.kernel.errors import ContractError, InvalidApiKey, PolicySignerUnavailable
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.telemetry import traces
from foundation.telemetry.context import note
from ledger.models import LogEntry, Result
from payments.api.payment_requests import PAYMENT_REQUEST, read_payment_request
from payments.api.waiting import MOST_WAITING, WaitingRoom, read_wait
from payments.deciding.answers import answer, refusal
from payments.deciding.batching import Batcher
from payments.deciding.operations import Approval, follow
from payments.deciding.reading import AnotherCaller
from payments.deciding.requests import PaymentRequest
from payments.environment import payment_environment
from payments.holding.states import has_ended
from payments.queries import is_on_chain_or_over
from policy.authentication import caller_of, take_as_verified, verify_caller

log = logging.getLogger(__name__)

waiting_room = WaitingRoom(MOST_WAITING)
# One for the batches that wait for nobody, the others for those that wait for their agents.
batch_sessions = SharedSessions(4)


class PaymentViewSet(ApiViewSet):
    required_scope = "payments"
    verifies_callers = True
    body_form: ClassVar[Serializer | None] = PAYMENT_REQUEST

    def handle_exception(self, exc: Exception) -> Response:
        """Refuse a caller who was only remembered with 401, whatever else is wrong, unless the key is in force."""
        try:
            if self.is_authenticated:
                verify_caller(self.request)
        except (InvalidApiKey, DatabaseError) as error:
            exc = error
        response = super().handle_exception(exc)
        if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE:  # evaluated or not, logged or not
            PAYMENTS_UNAVAILABLE.add()
        return response

    def create(self, request: Request) -> Response:
        """Attempt to settle one payment from one agent's allowance."""
        try:
            approval = self._decide(request)
        except AnotherCaller:  # nothing was decided: it is, by what the key permits now
            verify_caller(request)
            self.check_permissions(request)
            approval = self._decide(request)
        note(paymentId=approval.entry.payment_id, tx=approval.entry.tx)
        if traces.is_on():
            _trace(request.META, approval)
        headers = {"Location": f"/v1/payments/{approval.entry.payment_id}"}
        if approval.is_replay:
            headers["Idempotent-Replayed"] = "true"
        entry = approval.entry
        seconds = read_wait(request.META.get("HTTP_PREFER", ""))
        if seconds is not None and (over := _what_to_wait_for(entry)) is not None and _wait_for(over, entry, seconds):
            headers["Preference-Applied"] = f"wait={seconds}"
            with within_group_of(entry.agent_id):
                entry = follow(entry)
        return _respond(entry, headers)

    def read(self, request: Request) -> PaymentRequest:
        """Read what is asked for. Raises as `read_payment_request` does."""
        return read_payment_request(request, self.body, caller_of(request))

    def _decide(self, request: Request) -> Approval:
        asked = self.read(request)
        try:
            return payment_batcher(group_of(asked.agent_id)).request_payment(asked)
        except PolicySignerUnavailable:  # perhaps nothing was read
            raise
        except ContractError:  # what refused it was read together with the key, under the agent's lock
            take_as_verified(request)
            raise


def _trace(meta: Mapping[str, Any], approval: Approval) -> None:
    """Trace the request of an approval, from its arrival until its decision was committed."""
    entry, ended = approval.entry, traces.now_ns()
    began = round(meta[ARRIVED_AT] * 1e9) if ARRIVED_AT in meta else ended
    ids: dict[str, Any] = {"agent_id": entry.agent_id, "service": entry.service, "log_id": entry.id}
    ids["request_id"] = meta["HTTP_X_REQUEST_ID"]
    if approval.is_replay:
        traces.add_span(str(entry.payment_id), "replay", began, ended, **ids)
        return
    caller = meta.get("HTTP_TRACEPARENT", "")
    traces.add_first_span(str(entry.payment_id), "payment request", began, ended, parent=caller, **ids)


def _respond(entry: LogEntry, headers: dict[str, str]) -> Response:
    """Answer with a payment; raises the refusal of one that was held and is refused by now."""
    if entry.payment_id is None:
        raise refusal(entry)
    is_held = entry.result == Result.HELD
    return Response(answer(entry), HTTPStatus.ACCEPTED if is_held else HTTPStatus.CREATED, headers=headers)


def _what_to_wait_for(entry: LogEntry) -> Callable[[], bool] | None:
    """Tell what an answer can wait for: a person, or the transaction. None: nothing, for its payee takes the money.

    The decision is committed: waiting can only delay the answer, or tell what a person has decided since.
    """
    if entry.result != Result.HELD and entry.tx is None:
        return None
    is_over = has_ended if entry.result == Result.HELD else is_on_chain_or_over

    def look() -> bool:
        with within_group_of(entry.agent_id):
            return is_over(str(entry.payment_id))

    return look


def _wait_for(is_over: Callable[[], bool], entry: LogEntry, seconds: int) -> bool:
    """Wait for what becomes of a payment; tell whether that was possible. A failing query only ends the wait."""
    try:
        return waiting_room.wait(is_over, seconds)
    except DatabaseError as error:
        log_once_a_minute(log, logging.WARNING, "Stopped waiting for %s: %s", entry.payment_id, type(error).__name__)
        return False


@cache
def payment_batcher(group: Group) -> Batcher:
    """Give the batcher of this process for the agents of a group."""
    session = batch_sessions.use if group == WHOLE else partial(within, group)
    return Batcher(payment_environment, settings.DECIDE_TOGETHER, settings.SETTLE_WITHIN_MS / 1000, session=session)

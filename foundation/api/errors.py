"""The table from error code to status, and the one envelope: `{"error": {"code", "message", "retry", "docs", ...}}`.

Source: docs/interface-specification.md, "Errors"; docs/contract.md, "Error codes".
"""

import logging
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, InternalError, OperationalError
from django.http import Http404, HttpResponse, JsonResponse
from rest_framework import exceptions
from rest_framework.response import Response

from foundation.kernel import errors
from foundation.kernel.repeated_logs import log_once_a_minute

log = logging.getLogger(__name__)

STATUS: dict[type[errors.ContractError], int] = {
    errors.InvalidRequest: 400,
    errors.IdempotencyKeyRequired: 400,
    errors.InvalidApiKey: 401,
    errors.InsufficientScope: 403,
    errors.AgentPaused: 403,
    errors.ServiceNotApproved: 403,
    errors.ServiceNotPayable: 403,
    errors.OutsideAllowedTime: 403,
    errors.ApprovalDeclined: 403,
    errors.AgentNotFound: 404,
    errors.PaymentNotFound: 404,
    errors.ServiceNotFound: 404,
    errors.LogEntryNotFound: 404,
    errors.NotFound: 404,
    errors.MethodNotAllowed: 405,
    errors.IdempotencyConflict: 409,
    errors.PayloadTooLarge: 413,
    errors.UnsupportedMediaType: 415,
    errors.BudgetExceeded: 422,
    errors.RateLimited: 429,
    errors.InternalError: 500,
    errors.PolicySignerUnavailable: 503,
}
# The frameworks' exceptions, as errors of the contract.
_TRANSLATIONS: dict[type[Exception], type[errors.ContractError]] = {
    exceptions.MethodNotAllowed: errors.MethodNotAllowed,
    exceptions.NotFound: errors.NotFound,
    exceptions.PermissionDenied: errors.InsufficientScope,
    Http404: errors.NotFound,
    PermissionDenied: errors.InsufficientScope,
}
REALM = 'Bearer realm="allowance"'
DOCS = "/v1/docs/errors"  # has a page for each code, relative to the installation


def envelope(error: errors.ContractError) -> dict[str, Any]:
    """Shape the body that every client sees."""
    docs = f"{DOCS}/{error.code}"
    return {
        "error": {"code": error.code, "message": error.message, "retry": error.retry, "docs": docs, **error.details}
    }


def headers(error: errors.ContractError) -> dict[str, str]:
    """Give the headers that belong to an error beside its body."""
    found = {}
    if isinstance(error, errors.InvalidApiKey):
        found["WWW-Authenticate"] = REALM
    if isinstance(error, errors.PolicySignerUnavailable | errors.RateLimited) or error.retry_after_s:
        found["Retry-After"] = str(error.retry_after_s or errors.DEFAULT_RETRY_AFTER_S)
    if isinstance(error, errors.RateLimited) and error.counted is not None:  # draft-ietf-httpapi-ratelimit-headers
        quota = settings.RATE_LIMIT_PER_MINUTE if error.counted == "key" else settings.REFUSALS_PER_MINUTE
        found["RateLimit-Policy"] = f'"{error.counted}";q={quota};w=60'
        found["RateLimit"] = f'"{error.counted}";r=0;t={error.retry_after_s}'
    if error.replayed:
        found["Idempotent-Replayed"] = "true"
    return found


def exception_handler(exception: Exception, context: dict[str, Any]) -> Response | None:
    """Answer what a view raised; None lets Django log it and answer `internal_error`."""
    error = _as_contract_error(exception)
    if error is None:
        return None
    response = Response(envelope(error), status=STATUS[type(error)], headers=headers(error))
    # Django's mark: a refusal is an answer, not a failure to be logged.
    response._has_been_logged = True  # type: ignore[attr-defined] # noqa: SLF001
    if isinstance(error, errors.MethodNotAllowed):
        response["Allow"] = ", ".join(context["view"].allowed_methods)
    return response


def error_response(error: errors.ContractError) -> HttpResponse:
    """Answer outside DRF, in the same envelope."""
    form = {"separators": (",", ":"), "ensure_ascii": False}  # as DRF writes it
    return JsonResponse(envelope(error), status=STATUS[type(error)], headers=headers(error), json_dumps_params=form)


def _as_contract_error(exception: Exception) -> errors.ContractError | None:
    if isinstance(exception, errors.ContractError):
        return exception
    if isinstance(exception, exceptions.ValidationError):
        return errors.InvalidRequest(fields=list(_faults(exception.detail)))
    if isinstance(exception, OperationalError | InterfaceError | InternalError):
        # No database, or a read-only one: fail closed, and say "retry later".
        # Logged apart by the kind of error: a read that is too slow must not hide a full disk.
        why = type(exception.__cause__ or exception).__name__
        log_once_a_minute(log, logging.ERROR, "The database did not answer.", exc_info=exception, about=why)
        return errors.PolicySignerUnavailable()
    return next((error() for raised, error in _TRANSLATIONS.items() if isinstance(exception, raised)), None)


def _faults(detail: Any, param: str = "") -> Any:
    if isinstance(detail, dict):
        for name, inner in detail.items():
            yield from _faults(inner, f"{param}.{name}" if param else str(name))
    elif isinstance(detail, list):
        for inner in detail:
            yield from _faults(inner, param)
    else:
        yield {"param": param, "message": str(detail)}

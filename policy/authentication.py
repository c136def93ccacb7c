"""Authenticate requests by their API key, and check what the key permits.

A missing, malformed, unknown, expired or revoked key gets the same 401, and so does one that is not accepted from the
client's address. A revocation holds at once on every process:
the key is looked up for each request, that of a payment together with what the payment depends on.
Source: docs/interface-specification.md, "Authentication"; docs/contract.md, "Requests and answers" and "Keys".
"""

import hmac
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from django.db import DatabaseError
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from foundation.api.client_address import client_address
from foundation.api.credentials import sent_credentials
from foundation.api.environ import forget_caller
from foundation.api.errors import REALM
from foundation.database import write_rows
from foundation.groups import name_here, within_group_of
from foundation.kernel.errors import AgentNotFound, InsufficientScope, InvalidApiKey
from foundation.prepared_statements import fetch_prepared
from policy.address_ranges import is_inside
from policy.api_keys import digest, is_well_formed
from policy.callers import Caller, remembered_callers
from policy.models import Agent

# Written in SQL because building the statement with the ORM would cost every request more than running it. The last use
# is shown to people: to the minute is enough, and saves a write per request.
_FIND = """
    SELECT id, digest, scopes, agent_id, address_ranges,
           revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp()),
           COALESCE(last_used_at > clock_timestamp() - interval '1 minute', false)
      FROM policy_apikey WHERE digest = %s
"""
_NOTE_USE = "UPDATE {} SET last_used_at = %(now)s WHERE id = %(id)s"


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer <key>`, `X-API-Key: <key>` or `Authorization: Api-Key <key>`.

    Who was verified lately is not looked up before a POST to a view that verifies its callers.
    """

    def authenticate(self, request: Request) -> tuple[Caller, None]:
        wanted = digest(_sent_key(request.META))
        is_verified_later = request.method == "POST" and request.parser_context["view"].verifies_callers
        caller = remembered_callers.recall(wanted) if is_verified_later else None
        if caller is None:
            return find_caller(wanted, request.META), None
        _refuse_elsewhere(caller, request.META)
        return caller, None

    def authenticate_header(self, _request: Request) -> str:
        return REALM


class HasScope(BasePermission):
    """The key must have been granted the view's `required_scope`, or, to read, one of its `scopes_to_read`."""

    def has_permission(self, request: Request, view: Any) -> bool:
        is_read = view.scopes_to_read is not None and request.method in ("GET", "HEAD")
        enough = view.scopes_to_read if is_read else (view.required_scope,)
        if enough and caller_of(request).scopes.isdisjoint(enough):
            raise InsufficientScope(f"This API key does not have the scope {' or '.join(enough)}.")
        return True


def caller_of(request: Request) -> Caller:
    """Return the caller of an authenticated request."""
    return cast("Caller", request.user)


def find_caller(wanted: bytes, meta: Mapping[str, Any]) -> Caller:
    """Find the caller of a key that is in force by its digest (32 bytes), and record its use.

    `meta` is the environment of the request: the key may be accepted from some addresses only.

    Raises:
        InvalidApiKey: unknown, expired, revoked, or not accepted from there.
    """
    found = fetch_prepared(_FIND, [wanted])
    if found is None:
        raise InvalidApiKey
    key_id, stored, scopes, agent_id, address_ranges, is_in_force, was_used_lately = found
    if not hmac.compare_digest(stored, wanted) or not is_in_force:
        remembered_callers.forget(wanted)
        raise InvalidApiKey
    caller = Caller(key_id, frozenset(scopes), agent_id, tuple(address_ranges or ()))
    _refuse_elsewhere(caller, meta)
    if not was_used_lately:
        # Where keys are looked up, and nowhere else: a change on all servers would fail while one of them is away.
        write_rows(_NOTE_USE.format(name_here("policy_apikey")), {"id": key_id, "now": timezone.now()})
    remembered_callers.remember(wanted, caller)
    return caller


def name_caller(meta: Mapping[str, Any]) -> str | None:
    """Name whose key a request bears; "": it is not valid; None: the database cannot tell now."""
    try:
        return str(find_caller(digest(_sent_key(meta)), meta))
    except InvalidApiKey:
        return ""
    except DatabaseError:
        return None


def verify_caller(request: Request) -> None:
    """Look up the caller of an authenticated request, if they were only remembered.

    Raises:
        InvalidApiKey: their key is not in force any more.
    """
    wanted = caller_of(request).unverified
    if wanted is None:
        return
    try:
        request.user = find_caller(wanted, request.META)  # type: ignore[assignment]  # not one of Django's
    except InvalidApiKey:
        forget_caller(request.META)
        raise


def take_as_verified(request: Request) -> None:
    """Take a caller who was only remembered for verified: their key was in force when their request was decided."""
    request.user = replace(caller_of(request), unverified=None)  # type: ignore[assignment]  # not one of Django's


def _refuse_elsewhere(caller: Caller, meta: Mapping[str, Any]) -> None:
    """Refuse a key with address ranges from outside them, as if it were unknown: who stole it learns nothing."""
    if caller.address_ranges and not is_inside(client_address(meta), caller.address_ranges):
        raise InvalidApiKey


def may_act_for(caller: Caller, agent_id: str) -> bool:
    """Tell whether a key may act for an agent: an unbound key for any, a bound key for its own only."""
    return caller.agent_id in (None, agent_id)


def agent_asked_for(caller: Caller, agent_id: str | None) -> str | None:
    """Name the agent that a list is restricted to: the one that is asked for, or else the key's own; None: to none.

    Raises:
        InsufficientScope: the key is bound to another agent.
        AgentNotFound: there is no such agent. To answer "nothing" would say that a mistyped one has never paid.
    """
    if agent_id is None:
        return caller.agent_id
    if not may_act_for(caller, agent_id):
        raise InsufficientScope
    if caller.agent_id is None:
        with within_group_of(agent_id):
            if not Agent.objects.filter(pk=agent_id).exists():
                raise AgentNotFound
    return agent_id


def _sent_key(meta: Mapping[str, Any]) -> str:
    """Return the one well-formed key that was sent; raises `InvalidApiKey`."""
    (key, *others) = sent_credentials(meta) or {""}
    if others or not is_well_formed(key):
        raise InvalidApiKey
    return key

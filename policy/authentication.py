"""Who is asking: the API key of a request, and what it permits.

One 401 body for a missing, malformed, unknown, expired and revoked key. Nothing is cached, so a revocation holds at
once on every process. Source: specification, "Authentication"; contract.md, "Requests and answers" and "Keys".
"""

import hmac
from datetime import timedelta
from typing import Any, cast

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from allowance.api.errors import REALM
from allowance.kernel.errors import InsufficientScope, InvalidApiKey
from policy.api_keys import digest, is_well_formed
from policy.models import ApiKey

_SCHEMES = ("bearer", "api-key")
# Written out: building this statement anew would cost every request more than running it.
_FIND = "SELECT id, digest, scopes, agent_id, expires_at, revoked_at, last_used_at FROM policy_apikey WHERE digest = %s"
# A key's last use is for people: to the minute is enough, and spares a write per request.
_LAST_USE_PRECISION = timedelta(minutes=1)


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer <key>`, `X-API-Key: <key>` or `Authorization: Api-Key <key>`."""

    def authenticate(self, request: Request) -> tuple[ApiKey, None]:
        sent = _sent_keys(request)
        if len(sent) != 1:
            raise InvalidApiKey
        return find_valid_key(sent.pop()), None

    def authenticate_header(self, _request: Request) -> str:
        return REALM


class HasScope(BasePermission):
    """The key must have been granted the view's `required_scope`."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if view.required_scope not in api_key_of(request).scopes:
            raise InsufficientScope(f"This API key does not have the scope {view.required_scope}.")
        return True


def api_key_of(request: Request) -> ApiKey:
    """Give the key that an authenticated request was sent with."""
    return cast("ApiKey", request.user)


def find_valid_key(key: str) -> ApiKey:
    """Find the record of a key that is in force, and note its use.

    Raises:
        InvalidApiKey: malformed, unknown, expired or revoked.
    """
    if not is_well_formed(key):
        raise InvalidApiKey
    wanted = digest(key)
    found = next(iter(ApiKey.objects.raw(_FIND, [wanted])), None)
    now = timezone.now()
    if (
        found is None
        or not hmac.compare_digest(bytes(found.digest), wanted)
        or found.revoked_at
        or (found.expires_at and found.expires_at <= now)
    ):
        raise InvalidApiKey
    if found.last_used_at is None or now - found.last_used_at > _LAST_USE_PRECISION:
        ApiKey.objects.filter(pk=found.pk).update(last_used_at=now)
    return found


def may_act_for(api_key: ApiKey, agent_id: str) -> bool:
    """Tell whether a key may speak for an agent: an unbound key for any, a bound one for its own."""
    return api_key.agent_id in (None, agent_id)


def _sent_keys(request: Request) -> set[str]:
    sent = set()
    authorization = request.headers.get("Authorization")
    if authorization is not None:
        scheme, _, key = authorization.strip().partition(" ")
        sent.add(key.strip() if scheme.lower() in _SCHEMES else "")
    header = request.headers.get("X-API-Key")
    if header is not None:
        sent.add(header.strip())
    return sent

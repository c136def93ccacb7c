"""`POST /v1/payments/request` as one writes it plainly with Django and DRF: to compare the product's money path with.

The same rules, signatures, rows and answers (`tests/benchmarks/test_plain.py` compares), by DRF's parts and the ORM
alone. It leaves out what the benchmark does not ask for: other forms of keys, gas budgets, the comparison of clocks,
the limit of refusals, `Prefer: wait`, and the locks with which staff take a signer or a payee out of service at once.
"""

import time
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.db.models import Q
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from foundation.kernel.assets import Asset
from foundation.kernel.canonical import canonical_json, fingerprint
from foundation.kernel.errors import IdempotencyKeyRequired, InsufficientScope, InvalidApiKey, RateLimited
from foundation.kernel.times import utc_now
from payments.api.payment_requests import PaymentRequestSerializer
from payments.deciding.answers import answer, refusal
from payments.deciding.requests import PaymentRequest
from policy.api_keys import digest
from policy.models import ApiKey
from tests.benchmarks.plain.deciding import decide

_MINUTE_S = 60


class KeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer <key>`."""

    def authenticate(self, request: Request) -> tuple[ApiKey, None]:
        _, _, key = request.headers.get("Authorization", "").partition(" ")
        now = timezone.now()
        in_force = ApiKey.objects.filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None)
        found = in_force.filter(digest=digest(key)).first()
        if found is None:
            raise InvalidApiKey
        if found.last_used_at is None or found.last_used_at < now - timedelta(minutes=1):
            ApiKey.objects.filter(pk=found.pk).update(last_used_at=now)
        return found, None


class MayPay(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        if "payments" not in request.user.scopes:
            raise InsufficientScope
        return True


class KeyThrottle(BaseThrottle):
    """So many requests a minute of one key, in all processes."""

    def allow_request(self, request: Any, view: Any) -> bool:
        counter = f"plain:{request.user.pk}:{int(time.time()) // _MINUTE_S}"
        try:
            used = cache.incr(counter)
        except ValueError:  # the first of this minute
            cache.add(counter, used := 1, timeout=2 * _MINUTE_S)
        if used > settings.RATE_LIMIT_PER_MINUTE:
            raise RateLimited(retry_after_s=_MINUTE_S)
        return True


class PaymentView(APIView):
    authentication_classes = [KeyAuthentication]
    permission_classes = [MayPay]
    throttle_classes = [KeyThrottle]

    def post(self, request: Any) -> Response:
        key = request.headers.get("Idempotency-Key", "")
        if not key:
            raise IdempotencyKeyRequired
        form = PaymentRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        if request.user.agent_id not in (None, data["agentId"]):
            raise InsufficientScope
        metadata = data.get("metadata")
        entry, is_replay = decide(
            PaymentRequest(
                agent_id=data["agentId"],
                service=data["service"],
                amount=data["parsed_amount"],
                amount_text=data["amount"],
                asset=Asset(data["asset"]),
                reason=data["reason"],
                metadata_json=None if metadata is None else canonical_json(metadata).decode(),
                idempotency_key=key,
                fingerprint=fingerprint(request.data),
            )
        )
        if entry.payment_id is None:
            raise refusal(entry, replayed_at=utc_now() if is_replay else None)
        headers = {"Location": f"/v1/payments/{entry.payment_id}"}
        if is_replay:
            headers["Idempotent-Replayed"] = "true"
        return Response(answer(entry), status=201, headers=headers)

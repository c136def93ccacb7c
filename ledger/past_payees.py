"""Read the payees that other limits allow, as they are now, for what `ledger.replay` judges anew."""

from collections.abc import Mapping

from django.conf import settings

from foundation.kernel.assets import Asset
from ledger.past import Payee
from policy.limits import Limits
from services.models import Service, ServiceStatus
from services.payable import allowed_by

_OF_PAYEE = ("pk", "asset", "chain", "status", "decided_at", "tags")


def read_payees(limits: Limits) -> Mapping[str, Payee]:
    """Read the payees as they are now, those that these limits allow."""
    services = Service.objects.filter(allowed_by(limits.allowed_services, limits.more.allowed_tags))
    minimums = {caip2: served.minimums for caip2, served in settings.CHAINS.items()}
    return {
        pk: Payee(
            asset,
            minimums.get(chain, {}).get(Asset(asset)),
            decided_at if status == ServiceStatus.APPROVED else None,
            tags,
        )
        for pk, asset, chain, status, decided_at, tags in services.values_list(*_OF_PAYEE)
    }

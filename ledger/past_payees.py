"""Read the payees that other limits allow, as they are now, for what `ledger.replay` judges anew."""

from collections.abc import Mapping

from django.conf import settings

from foundation.kernel.assets import Asset
from ledger.past import Payee
from policy.limits import Limits
from services.models import Service, ServiceStatus


def read_payees(limits: Limits) -> Mapping[str, Payee]:
    """Read the payees as they are now, those that these limits allow."""
    if limits.allowed_services == []:
        return {}
    services = Service.objects.all()
    if limits.allowed_services is not None:
        services = services.filter(pk__in=limits.allowed_services)
    minimums = {caip2: served.minimums for caip2, served in settings.CHAINS.items()}
    return {
        pk: Payee(
            asset,
            minimums.get(chain, {}).get(Asset(asset)),
            decided_at if status == ServiceStatus.APPROVED else None,
        )
        for pk, asset, chain, status, decided_at in services.values_list("pk", "asset", "chain", "status", "decided_at")
    }

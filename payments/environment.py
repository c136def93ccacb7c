"""What decisions depend on in this process, outside of the database."""

from datetime import timedelta

from django.conf import settings

from payments.deciding.requests import Environment
from payments.settling.broadcast_notifier import broadcast_notifier
from policy.signer import local_signer
from services.served_chains import served_chains


def payment_environment() -> Environment:
    """Assemble it."""
    return Environment(
        signer=local_signer(),
        chains=served_chains(),
        max_chain_state_age=timedelta(seconds=settings.CHAIN_STATE_MAX_AGE_S),
        wake=broadcast_notifier().notify,
        refusals_per_minute=settings.REFUSALS_PER_MINUTE,
        minimums={caip2: served.minimums for caip2, served in settings.CHAINS.items()},
        gas_budget=settings.GAS_BUDGET_PER_AGENT,
    )

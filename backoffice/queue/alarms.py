"""Alarms: what is wrong with the chains, the escrows, the signer and the gas money."""

from django.conf import settings

from backoffice.queue.items import Item, Severity, list_page, numbered, row_page
from backoffice.queue.trouble_words import DENIES_PAYMENTS, DIFFERS, MISSING_MONEY
from chains.catalogue import alias_of
from foundation.kernel.times import utc_now
from foundation.recent import Recent
from payments.funding.pools import read_pools
from payments.models import ChainState
from payments.queries import find_troubled_chains
from payments.reconciling.outflow_booking import find_open_outflows
from payments.settling.agent_gas import find_gas_use
from policy.models import SignerSwitch

# The front page draws them, too: to read them takes longer than all else there.
recent_pools = Recent(read_pools)


def find_troubles_of_chains() -> list[Item]:
    """Find the chains that a person has to look at: nothing is paid there, or a comparison raised an alarm."""
    return [_of_chain(state) for state in find_troubled_chains()]


def _of_chain(state: ChainState) -> Item:
    troubles = {
        MISSING_MONEY: state.is_missing_money,  # type: ignore[attr-defined] # annotated
        DENIES_PAYMENTS: state.denies_payments,  # type: ignore[attr-defined] # annotated
        f"Signing is stopped: {state.stopped_reason}": state.stopped_reason,
        f"{DIFFERS} {state.mismatch}": state.mismatch,
    }
    said = [trouble for trouble, is_so in troubles.items() if is_so]
    compares = MISSING_MONEY in said or DENIES_PAYMENTS in said
    return Item(
        "chains",
        len(said),
        f"{alias_of(state.chain)}: {' '.join(said)}",
        list_page("payments_reconciliation", chain=state.chain)
        if compares
        else row_page("payments_chainstate", state.chain),
        "Compare" if compares else "Look at the chain",
        Severity.ERROR,
        "payments.view_chainstate",
        state.stopped_at,
        state.chain,
    )


def find_overdrawn_pools() -> list[Item]:
    """Find the assets of which more is promised than all escrows hold."""
    return [
        Item(
            "pools",
            1,
            f"Too much is promised: {pool}",
            list_page("payments_reconciliation"),
            "Compare",
            Severity.ERROR,
            "payments.view_reconciliation",
            subject=pool.asset,
        )
        for pool in recent_pools.read(is_now=True)
        if pool.is_overdrawn
    ]


def find_unknown_outflows() -> list[Item]:
    """Find what left an escrow and nobody has booked."""
    moments = list(find_open_outflows().values_list("found_at", flat=True))
    if not moments:
        return []
    sentence = numbered(len(moments), "outflow is not booked", "outflows are not booked")
    return [
        Item(
            "outflows",
            len(moments),
            f"{sentence}: something left an escrow that the ledger does not know.",
            list_page("payments_outflow", state="open"),
            "Book",
            Severity.ERROR,
            "payments.view_outflow",
            min(moments),
            acts="payments.change_outflow",
        )
    ]


def find_signer_out_of_service() -> list[Item]:
    """Find out whether the policy signer was taken out of service."""
    switch = SignerSwitch.objects.first()
    if switch is not None and switch.is_signing:
        return []
    by = f" {switch.changed_by} stopped it." if switch and switch.changed_by else ""
    return [
        Item(
            "signer",
            1,
            f"The policy signer is out of service: nothing is paid.{by}",
            list_page("policy_signerswitch"),
            "Look at the signer",
            Severity.ERROR,
            "policy.view_signerswitch",
            switch.changed_at if switch else None,
        )
    ]


def find_used_up_gas_budgets() -> list[Item]:
    """Find the agents whose gas budget on a chain is used up: none of their payments there is approved."""
    if settings.GAS_BUDGET_PER_AGENT is None:
        return []
    return [
        Item(
            "gas",
            1,
            f"Gas of {use.agent_id}: its budget of 24 hours is used up on {use.chain_name}.",
            row_page("policy_agent", use.agent_id),
            "Look at the agent",
            Severity.WARNING,
            "policy.view_agent",
            subject=f"{use.agent_id} {use.chain}",
        )
        for use in find_gas_use(utc_now(), includes_history=False)
        if use.is_budget_used_up
    ]

"""Make what an escrow's owner signs so that the tokens of a withdrawal leave the escrow, on each kind of chain."""

from typing import Any

from django.conf import settings
from django.db import transaction

from chains.catalogue import ServedChain, Vm
from chains.evm.owner_calls import withdraw, write_safe_batch
from chains.port import ChainUnavailable
from chains.solana.adapter import SolanaChain
from chains.solana.handing_over import hand_over
from foundation.commands import AUTHOR
from foundation.environment.keys import held_key
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import to_base_units
from payments.funding.withdrawals import cancel_withdrawal, find_withdrawal
from payments.models import Withdrawal
from payments.settling.next_states import HEIGHT_MARGIN, find_search_cursor
from services.served_chains import solana_chain
from staff.audit import record


class StillValid(OperationRefused):
    """Raise if the transaction that the owner was given before may still be included: a second one could pay twice."""


def transfer_to_sign(withdrawal: Withdrawal, *, by: str = AUTHOR) -> dict[str, Any]:
    """Make what the owner signs, by name.

    On an EVM chain: `call`, a call of the escrow, and `safe`, the same as a batch file for a Safe. Neither is secret,
    and neither expires. On Solana: `transaction`, in base64, signed by the relayer. It expires within a minute or two,
    and another one is made only once it is certain that this one was not included. `by`: who asked for that one.

    Raises:
        OperationRefused: the chain or its asset is not served any more, or the withdrawal has ended.
        StillValid: on Solana, an earlier transaction may still be included.
        ChainUnavailable: on Solana, no node answered, or they contradict each other.
    """
    served = _check_open(withdrawal)
    return _on_evm(withdrawal, served) if served.chain.vm is Vm.EVM else _on_solana(withdrawal, by)


def cancel_checked(reference: str, *, by: str, reason: str) -> Withdrawal:
    """Cancel a withdrawal that `check_is_over` has looked at: this asks no node.

    Raises:
        OperationRefused: as `cancel_withdrawal` does.
        StillValid: nobody looked, or a transaction was made since, which may still be included.
    """
    withdrawal = find_withdrawal(reference)
    if withdrawal.valid_until_height is not None and _chain_that_expires(withdrawal) is not None:
        raise StillValid(f"The transaction made for {withdrawal} may still be included: try again in a minute.")
    return cancel_withdrawal(reference, by=by, reason=reason, checked=withdrawal)


def check_is_over(withdrawal: Withdrawal) -> None:
    """Check that no transaction of a withdrawal can be included any more. This asks nodes, so call it under no lock.

    On an EVM chain, what the owner signs never expires: there, only the holder of the owner's key can tell. What has
    expired is forgotten, so that `cancel_checked` sees whether another transaction was made since.

    Raises:
        OperationRefused: a transaction may still be included, or that cannot be told now.
    """
    if (adapter := _chain_that_expires(withdrawal)) is None:
        return
    try:
        if _may_be_included(withdrawal, adapter, adapter.follower.find_finality().skipped):
            raise StillValid(f"The transaction made for {withdrawal} may still be included: try again in a minute.")
    except ChainUnavailable as error:
        raise OperationRefused(
            f"It cannot be told whether {withdrawal} may still be paid on the chain: {error}"
        ) from error
    seen = Withdrawal.objects.filter(pk=withdrawal.pk, valid_until_height=withdrawal.valid_until_height)
    seen.update(valid_until_height=None)


def _chain_that_expires(withdrawal: Withdrawal) -> SolanaChain | None:
    """Find the chain of an open withdrawal if what its owner signs there expires; None: there is nothing to look at."""
    served: ServedChain | None = settings.CHAINS.get(withdrawal.chain)
    if withdrawal.state != "open" or served is None or withdrawal.escrow != served.escrow:
        return None
    return solana_chain(withdrawal.chain) if served.chain.vm is Vm.SOLANA else None


def transaction_expires(withdrawal: Withdrawal) -> bool:
    """Tell whether what the owner signs expires, so that it is made only when the owner is about to sign."""
    return _check_open(withdrawal).chain.vm is Vm.SOLANA


def _check_open(withdrawal: Withdrawal) -> ServedChain:
    served: ServedChain | None = settings.CHAINS.get(withdrawal.chain)
    if served is None or withdrawal.asset not in served.tokens:
        raise OperationRefused(f"{withdrawal.asset} is not served on {withdrawal.chain} any more.")
    if withdrawal.state != "open":
        raise OperationRefused(f"{withdrawal} is {withdrawal.state}: there is nothing to sign.")
    if withdrawal.agent_id is None:
        # Its recipient is the next escrow's own token account, not the owner of one.
        raise OperationRefused(f"{withdrawal} is a transfer to the next escrow, which rotate_keys makes.")
    if withdrawal.escrow != served.escrow:
        raise OperationRefused(f"{withdrawal} is from another escrow than the one in use: cancel it.")
    return served


def _on_evm(withdrawal: Withdrawal, served: ServedChain) -> dict[str, Any]:
    asset, chain_id = Asset(withdrawal.asset), served.chain.chain_id
    units = to_base_units(withdrawal.amount, asset)
    call = withdraw(withdrawal.escrow, served.tokens[asset], withdrawal.recipient, units)
    made_at = int(withdrawal.created_at.timestamp() * 1000)
    batch = write_safe_batch(
        [call], chain_id=chain_id, name=withdrawal.reference, made_by="withdraw_funds", created_at_ms=made_at
    )
    return {"call": {**call.as_json(), "chainId": chain_id}, "safe": batch}


def _on_solana(withdrawal: Withdrawal, by: str) -> dict[str, Any]:
    adapter, asset = solana_chain(withdrawal.chain), Asset(withdrawal.asset)
    finality = adapter.follower.find_finality()
    if _may_be_included(withdrawal, adapter, finality.skipped):
        raise StillValid(f"The transaction made for {withdrawal} may still be included: wait until it expires.")
    made = hand_over(
        adapter,
        finality,
        held_key("RELAYER_SEED"),
        asset=asset,
        units=to_base_units(withdrawal.amount, asset),
        recipient=withdrawal.recipient,
        memo=withdrawal.reference,
    )
    with transaction.atomic():
        # Recorded before anybody has the transaction. If another process made one meanwhile, the height has changed.
        row = Withdrawal.objects.select_for_update(no_key=True).get(pk=withdrawal.pk)
        _check_open(row)
        if row.valid_until_height != withdrawal.valid_until_height:
            raise StillValid(f"Another transaction was just made for {withdrawal}.")
        row.valid_until_height = withdrawal.valid_until_height = made.valid_until_height
        row.save(update_fields=["valid_until_height"])
        after = {"validUntilHeight": made.valid_until_height}
        record("withdrawal.prepared", subject_type="withdrawal", subject=row.reference, by=by, after=after)
    return {"transaction": made.transaction, "validUntilHeight": made.valid_until_height}


def _may_be_included(withdrawal: Withdrawal, adapter: SolanaChain, skipped: int) -> bool:
    """Tell whether the earlier transaction is valid still, or may be in a block that was not searched yet."""
    if withdrawal.valid_until_height is None:
        return False
    search = find_search_cursor(withdrawal.chain, adapter)
    last_block = withdrawal.valid_until_height + HEIGHT_MARGIN + skipped
    searched = None if search is None else search.undisputed_block
    return searched is None or searched < last_block
